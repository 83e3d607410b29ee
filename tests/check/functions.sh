# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the checks of the sources share. They are run by "make check" with srcdir
# set, or by hand from anywhere.
set -uo pipefail

: "${srcdir:=$(dirname "${BASH_SOURCE[0]}")/../..}"
cd "$srcdir" || exit 99

problems=0

# Says what is wrong, and goes on: all of it is wanted.
problem() {
    echo "$*" >&2
    problems=$((problems + 1))
}

# The end of each check.
finish() {
    if ((problems > 0)); then
        echo "$(basename "$0"): $problems problem(s)" >&2
        exit 1
    fi
    exit 0
}

# skip_unless COMMAND: where it is not installed the check is skipped.
skip_unless() {
    if ! command -v "$1" >/dev/null; then
        echo "skipped: $1 is not installed"
        exit 77
    fi
}

# list_sources PATTERN...: the files of the tree that match one of the
# patterns, by git, or by name in an unpacked tarball.
list_sources() {
    local file
    if [[ -e .git ]] && command -v git >/dev/null; then
        git -c safe.directory='*' ls-files --cached -- "$@"
    else
        find . -name 'build*' -prune -o -type f -print | sed 's,^\./,,' |
            while read -r file; do
                for pattern in "$@"; do
                    # shellcheck disable=SC2053 # a pattern it is
                    if [[ ${file##*/} == $pattern ]]; then
                        echo "$file"
                        break
                    fi
                done
            done
    fi | LC_ALL=C sort -u | while read -r file; do
        # what git knows may have been removed but not yet committed
        [[ ! -f $file ]] || echo "$file"
    done
}

# list_scripts: all shell scripts, told by their names or first lines.
list_scripts() {
    list_sources '*' | while read -r file; do
        case $file in
        *.sh) echo "$file" ;;
        m4/* | build-aux/* | */.deps/* | *.c | *.h | *.py | *.md | configure*) ;;
        *)
            if head -c 64 "$file" | tr -d '\0' | head -n 1 |
                grep -Eq '^#!.*[/ ](ba)?sh( |$)'; then
                echo "$file"
            fi
            ;;
        esac
    done
}

# must_find WHAT ARRAY-SIZE: a check that looks at nothing is broken.
must_find() {
    if (($2 == 0)); then
        problem "no $1 found in $PWD"
        finish
    fi
}
