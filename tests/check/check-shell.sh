#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All shell scripts pass shellcheck.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"
skip_unless shellcheck

mapfile -t scripts < <(list_scripts)
must_find 'shell scripts' "${#scripts[@]}"
for script in "${scripts[@]}"; do
    shellcheck -x "$script" || problem "$script: shellcheck -x $script"
done
finish
