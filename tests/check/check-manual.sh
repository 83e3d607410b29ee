#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The manual pages are good POD; each option and command of the programs is in
# them, and no other; the options of the configuration are those of the table.
#
#   check-manual.sh [--update PRINT-MANUAL]
#
# Looks at the programs in $builddir (build/ by hand).
builddir=$(cd "${builddir:-build}" 2>/dev/null && pwd)
update=
if [[ ${1-} == --update ]]; then
    update=$(realpath "$2")
fi
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

conf_page=docs/migproxy.conf.5.pod
begin='=for comment What follows is made by'
end='=for comment End of what is made'

# with_options PRINT-MANUAL: the page as it should be
with_options() {
    sed -n "1,/^$begin/p" "$conf_page"
    echo
    "$1" || return
    sed -n "/^$end/,\$p" "$conf_page"
}

if [[ -n $update ]]; then
    page=$(with_options "$update" && echo .) || exit 1
    printf '%s' "${page%.}" >"$conf_page"
    exit 0
fi

if [[ -z $builddir || ! -x $builddir/docs/print-manual ||
    ! -x $builddir/migproxyctl || ! -x $builddir/migproxy ]]; then
    echo "skipped: migproxy, migproxyctl and docs/print-manual are not built"
    exit 77
fi

mapfile -t pages < <(list_sources '*.pod')
must_find 'manual pages' "${#pages[@]}"
if command -v podchecker >/dev/null; then
    for page in "${pages[@]}"; do
        podchecker -nowarnings "$page" >/dev/null 2>&1 ||
            problem "$page: podchecker $page"
    done
fi

with_options "$builddir/docs/print-manual" | cmp -s - "$conf_page" ||
    problem "$conf_page is not up to date: make update-manual"

# options_of_help COMMAND...: the long options in its help
options_of_help() {
    "$@" --help | sed '/^\[daemon\]/,$d' |
        grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+' |
        LC_ALL=C sort -u
}

# options_of_page PAGE: those that have an item
options_of_page() {
    grep '^=item B<-' "$1" | grep -oE 'B<--[a-z-]+>' | sed 's/^B<//; s/>$//' |
        LC_ALL=C sort -u
}

# compare WHAT PAGE TEXT < FILE: what the program has with what the page has.
# Never in a pipeline: it counts problems.
compare() {
    local difference
    difference=$(diff - <(echo "$3")) && return
    problem "$1: the program (<) and $2 (>) differ:"
    echo "$difference" >&2
}

ctl=$builddir/migproxyctl ctl_page=docs/migproxyctl.1.pod
commands=$("$ctl" --help |
    sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  *.*/\1/p')
must_find 'commands in migproxyctl --help' "$(grep -c . <<<"$commands")"
compare options "$ctl_page" "$(options_of_page "$ctl_page")" < <(
    for command in $commands; do
        options_of_help "$ctl" "$command"
    done | LC_ALL=C sort -u
)
compare commands "$ctl_page" "$(sed -n '/^=head1 COMMANDS/,/^=head1 EXIT/s/^=head2 \([a-z]*\).*/\1/p' \
    "$ctl_page")" <<<"$commands"

page=docs/migproxy.8.pod
compare options "$page" "$(options_of_page "$page")" < <(
    options_of_help "$builddir/migproxy"
)
finish
