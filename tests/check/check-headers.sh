#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each header compiles alone, and twice: it includes what it needs and has
# a guard.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

: "${CC:=cc}"
# HEADER_CFLAGS comes from the Makefile: where the libraries' headers are
read -ra cc <<<"$CC"
read -ra cflags <<<"${HEADER_CFLAGS-$(pkg-config --cflags json-c libevent openssl 2>/dev/null)}"
skip_unless "${cc[0]}"

mapfile -t headers < <(list_sources '*.h')
must_find headers "${#headers[@]}"
for header in "${headers[@]}"; do
    if ! printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "${cc[@]}" -std=gnu11 -D_GNU_SOURCE -I. "${cflags[@]}" -Wall -Wextra \
            -Wno-unused-parameter -Wstrict-prototypes -Werror -fsyntax-only \
            -x c - >&2; then
        problem "$header does not compile alone"
    fi
done
finish
