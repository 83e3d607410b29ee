#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# C sources look as .clang-format says; version 14 decides (others differ).
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"
skip_unless clang-format-14

mapfile -t files < <(list_sources '*.[ch]')
must_find 'C sources' "${#files[@]}"
for file in "${files[@]}"; do
    if ! clang-format-14 --dry-run -Werror "$file" 2>/dev/null; then
        problem "$file: clang-format-14 -i $file"
    fi
done
finish
