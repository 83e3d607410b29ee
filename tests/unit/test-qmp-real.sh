#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The QMP client against two real QEMUs under TCG; 77 where there is none.
set -u

QEMU=${QEMU:-qemu-system-x86_64}
command -v "$QEMU" >/dev/null || { echo "no $QEMU"; exit 77; }

dir=$(mktemp -d) || exit 1
pids=()
clean_up()
{
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    rm -rf "$dir"
}
trap clean_up EXIT

# start NAME OPTIONS...: a stopped guest with its monitor at $dir/NAME
start()
{
    local name=$1
    shift
    "$QEMU" -machine q35,memory-backend=mem0 -accel tcg -m 64 -display none \
        -object memory-backend-ram,id=mem0,size=64M \
        -nodefaults -S -qmp "unix:$dir/$name,server=on,wait=off" "$@" &
    pids+=($!)
}

start source -name real -uuid 12345678-1234-1234-1234-123456789abc
start destination -incoming defer -uuid 12345678-1234-1234-1234-123456789abc
for name in source destination; do
    for _ in $(seq 200); do
        [ -S "$dir/$name" ] && break
        sleep 0.05
    done
    [ -S "$dir/$name" ] || { echo "QEMU has not made its monitor in 10 s"; exit 1; }
done

# shellcheck disable=SC2086 # VG is a command with options, or nothing
${VG:-} "${builddir:-.}/tests/unit/qmp-real" \
    "$dir/source" "$dir/destination" "unix:$dir/migration"
