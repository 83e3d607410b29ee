#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each source says its licence in one of its first three lines.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

licence='SPDX-License-Identifier: BSD-3-Clause'
mapfile -t files < <({
    list_sources '*.[ch]' '*.sh' '*.py' '*.mk' '*.ac' '*.am'
    list_scripts
} | sort -u)
must_find sources "${#files[@]}"
for file in "${files[@]}"; do
    # an empty file says nothing that could be licensed
    if [[ -s $file ]] && ! head -n 3 "$file" | grep -qF "$licence"; then
        problem "$file: no \"$licence\" in its first three lines"
    fi
done
finish
