#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The table of states in docs/internals.md is the one in
# proxy/migration-state.c, and docs/openapi.yaml has the same states.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

code=proxy/migration-state.c
page=docs/internals.md
api=docs/openapi.yaml

# From the source: NAME: FOLLOWER FOLLOWER..., in the order of the table.
states_of_code() {
    local rows row
    local -A name_of=()
    rows=$(sed -n '/^static const struct state_row rows/,/^};/p' "$code" |
        tr -s '[:space:]' ' ' |
        grep -oE '\[MIGRATION_[A-Z_]+\] = \{"[a-z-]+", [^}]*\}')
    while read -r row; do
        [[ $row =~ ^\[MIGRATION_([A-Z_]+)\]\ =\ \{\"([a-z-]+)\" ]] || continue
        name_of[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
    done <<<"$rows"
    while read -r row; do
        [[ $row =~ ^\[MIGRATION_([A-Z_]+)\] ]] || continue
        printf '%s:' "${name_of[${BASH_REMATCH[1]}]}"
        grep -oE 'BIT\([A-Z_]+\)' <<<"$row" | tr -d '()' | sed 's/^BIT//' |
            while read -r follower; do
                echo "${name_of[$follower]-unknown:$follower}"
            done | LC_ALL=C sort | sed 's/^/ /' | tr -d '\n'
        echo
    done <<<"$rows"
}

# The same from the page's table: | `NAME` | ... | ... | FOLLOWER, FOLLOWER |
states_of_page() {
    local name next
    sed -n '/^## States/,/^## /p' "$page" | grep '^| `' |
        while IFS='|' read -r _ name _ _ next _; do
            name=${name//[\` ]/}
            printf '%s:' "$name"
            tr ',' '\n' <<<"$next" | tr -d ' ' | grep . | LC_ALL=C sort |
                sed 's/^/ /' | tr -d '\n'
            echo
        done
}

in_code=$(states_of_code)
in_page=$(states_of_page)
must_find "states in $code" "$(grep -c . <<<"$in_code")"
must_find "states in $page" "$(grep -c . <<<"$in_page")"
if ! difference=$(diff <(echo "$in_code") <(echo "$in_page")); then
    problem "$code (<) and $page (>) differ:"
    echo "$difference" >&2
fi

# the enum that begins with the first state; in whatever order. One state is
# shown by two names
shown=$(sed -n 's/.*? "\([a-z]*\)"$/\1/p' proxy/migration.c)
must_find "the second name of a state in proxy/migration.c" \
    "$(grep -c . <<<"$shown")"
in_api=$(sed -n '/^        state:/,/^        [a-z]*:$/p' "$api" |
    sed -n 's/^ *- \([a-z-]*\)$/\1/p' | LC_ALL=C sort)
if ! difference=$(diff <({ cut -d: -f1 <<<"$in_code"; echo "$shown"; } |
    LC_ALL=C sort) \
    <(echo "$in_api")); then
    problem "$code (<) and Migration.state of $api (>) differ:"
    echo "$difference" >&2
fi
finish
