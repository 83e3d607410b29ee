#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Documents keep up: links lead somewhere, each deadline and each request
# between daemons is described, each file of C is in the list of files.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

# anchors_of FILE: what "#..." may stand behind its name
anchors_of() {
    sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

check_link() {
    local page=$1 link=$2 file anchor
    file=${link%%#*}
    anchor=
    [[ $link != *'#'* ]] || anchor=${link#*#}
    if [[ -z $file ]]; then
        file=$page
    else
        file=$(dirname "$page")/$file
    fi
    if [[ ! -e $file ]]; then
        problem "$page: nothing at $link"
    elif [[ -n $anchor ]] && ! anchors_of "$file" | grep -qxF -e "$anchor"; then
        problem "$page: no heading for $link"
    fi
}

mapfile -t pages < <(list_sources '*.md')
must_find documents "${#pages[@]}"
for page in "${pages[@]}"; do
    while read -r link; do
        [[ $link == *://* ]] || check_link "$page" "$link"
    done < <(grep -oE '\]\([^) ]+\)' "$page" | sed 's/^](//; s/)$//')
done

# has PAGE SECTION WORD: in that section of the page
has() {
    sed -n "/^## $2\$/,/^## /p" "$1" | grep -qF -e "$3"
}

mapfile -t deadlines < <(grep -oE '"migration", "[a-z-]+", OPTION_DURATION' \
    conf/options.c | cut -d'"' -f4)
must_find 'deadlines in conf/options.c' "${#deadlines[@]}"
for deadline in "${deadlines[@]}"; do
    has docs/internals.md Deadlines "\`$deadline\`" ||
        problem "docs/internals.md, Deadlines: no $deadline"
done

mapfile -t requests < <(grep -ohE '"migration\.[a-z]+"' proxy/*.c |
    tr -d '"' | sort -u)
must_find 'requests in proxy/' "${#requests[@]}"
for request in "${requests[@]}"; do
    grep -qxF "### $request" docs/protocol.md ||
        problem "docs/protocol.md: no section about $request"
done

mapfile -t modules < <(list_sources 'util/*.c' 'conf/*.c' 'transport/*.c' \
    'stream/*.c' 'qmp/*.c' 'proxy/*.c' 'tools/*.c')
must_find modules "${#modules[@]}"
files=$(sed -n '/^## Layers and files$/,/^## Threads$/p' docs/internals.md)
for module in "${modules[@]}"; do
    name=$(basename "$module" .c)
    # "`-setup`" behind "source" stands for source-setup
    if ! grep -qE "[\`/]${name}[.\`]" <<<"$files" &&
        ! grep -qF "\`-${name##*-}\`" <<<"$files" &&
        ! grep -qF "\`${name%%-*}-*\`" <<<"$files" &&
        ! grep -qF "/${name%%-*}-*\`" <<<"$files"; then
        problem "docs/internals.md, Layers and files: nothing of $module"
    fi
done
finish
