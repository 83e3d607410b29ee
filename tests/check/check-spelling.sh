#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No common misspelling in sources and texts.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"
skip_unless codespell

mapfile -t files < <({
    list_sources '*.[ch]' '*.sh' '*.py' '*.mk' '*.ac' '*.am' '*.md' '*.yaml' \
        '*.pod' '*.sample'
    list_scripts
} | sort -u)
must_find texts "${#files[@]}"
codespell -I tests/check/spelling.txt "${files[@]}" >&2 ||
    problem "a word that is right goes into tests/check/spelling.txt"
finish
