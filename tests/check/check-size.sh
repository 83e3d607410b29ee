#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No source file has more than 700 lines.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

limit=700
mapfile -t files < <({
    list_sources '*.[ch]' '*.sh' '*.py'
    list_scripts
} | sort -u)
must_find sources "${#files[@]}"
for file in "${files[@]}"; do
    lines=$(wc -l <"$file")
    if ((lines > limit)); then
        problem "$file has $lines lines, at most $limit are allowed: split it"
    fi
done
finish
