#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Who includes whom: layers go downwards only, third-party libraries stay where
# they belong, pure modules do no I/O, read no clock and log nothing.
# shellcheck source=tests/check/functions.sh
. "$(dirname "$0")/functions.sh"

# The project's own directories that files of a layer may include.
declare -A may_include=(
    [util]='util'
    [conf]='conf util'
    [transport]='transport util'
    [stream]='stream util'
    [qmp]='qmp util'
    [proxy]='proxy qmp stream transport conf util'
    [tools]='tools qmp stream transport conf util'
)

# Where headers of a library may be included.
declare -A library_of=(
    [openssl]='transport'
    [json-c]='qmp proxy tools'
    [libvirt]='qmp'
    [curl]='tools'
    [event2]='util transport qmp proxy tools'
)

# Pure modules: bytes and times in, bytes and decisions out.
pure_modules=(transport/{frame,sched,flow,window,merge,chunk,piece,marks,hello}.c
    transport/mux{,-send,-take,-receive,-turn,-event}.c
    stream/{blocks,head,head-config,pages,pool,records,return-path}.c
    proxy/{advice,migration-state,policy}.c qmp/json-stream.c conf/{ini,options}.c)

# What no pure module may include, itself or through the project's headers.
pure_headers='sys/socket\.h|sys/time\.h|time\.h|poll\.h|pthread\.h|event2/[^>]*'
pure_headers+='|util/loop\.h|util/log\.h|util/sock\.h'
# And what it may not call.
pure_calls='clock_now|clock_wall_us|clock_gettime|gettimeofday|time'
pure_calls+='|printf|fprintf|log_(write|debug|info|warning|error)'

# includes_of FILE: LINE:HEADER for each #include.
includes_of() {
    sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1/;T;=;p' \
        "$1" | paste -d: - -
}

is_in() {
    [[ " $2 " == *" $1 "* ]]
}

check_layer() {
    local file=$1 layer=${1%%/*} line header top
    while IFS=: read -r line header; do
        top=${header%%/*}
        if [[ -n ${may_include[$top]-} ]]; then
            is_in "$top" "${may_include[$layer]}" ||
                problem "$file:$line: $layer/ may not include $header"
        elif [[ -n ${library_of[$top]-} ]]; then
            is_in "$layer" "${library_of[$top]}" ||
                problem "$file:$line: $layer/ may not include <$header>:" \
                    "only ${library_of[$top]}"
        fi
    done < <(includes_of "$file")
    # own headers are named from the top, so that the rules above see them
    while IFS=: read -r line header; do
        [[ $header == */* || $header == config.h ]] ||
            problem "$file:$line: name the directory of \"$header\""
    done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$file" |
        sed -E 's/^([0-9]+):[^"]*"([^"]*)".*/\1:\2/')
}

# closure_of FILE: FILE and the project's headers that it gets.
closure_of() {
    local -A seen=()
    local queue=("$1") file header
    while ((${#queue[@]} > 0)); do
        file=${queue[0]}
        queue=("${queue[@]:1}")
        [[ -z ${seen[$file]-} && -f $file ]] || continue
        seen[$file]=1
        echo "$file"
        while IFS=: read -r _ header; do
            queue+=("$header")
        done < <(includes_of "$file")
    done
}

# A comment may speak of anything.
without_comments() {
    sed -E 's,/\*([^*]|\*[^/])*\*/,,g; s,//.*,,; /\/\*/,/\*\//d' "$1"
}

check_pure() {
    local module=$1 file header called
    while read -r file; do
        while IFS=: read -r _ header; do
            if [[ $header =~ ^($pure_headers)$ ]]; then
                if [[ $file == "$module" ]]; then
                    problem "$module: a pure module includes $header"
                else
                    problem "$module: a pure module includes $header by $file"
                fi
            fi
        done < <(includes_of "$file")
    done < <(closure_of "$module")
    while read -r called; do
        problem "$module: a pure module calls $called)"
    done < <(without_comments "$module" |
        grep -oE "(^|[^_[:alnum:]])($pure_calls)[[:space:]]*\(" |
        sed 's/^[^_a-z]//' | sort -u)
}

mapfile -t files < <(list_sources '*.[ch]')
must_find 'C sources' "${#files[@]}"
for file in "${files[@]}"; do
    if [[ -n ${may_include[${file%%/*}]-} ]]; then
        check_layer "$file"
    fi
done

mapfile -t stream < <(list_sources 'stream/*.c')
for module in "${pure_modules[@]}" "${stream[@]}"; do
    if [[ -f $module ]]; then
        check_pure "$module"
    else
        echo "$module is listed as pure and is not there" >&2
    fi
done
finish
