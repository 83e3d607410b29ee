#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Throughput and CPU of a pair of carriers, beside stunnel and socat pairs in
# the same run. The sending proxy is pinned to the first core, the receiving
# one to the second.
#
#   bench-carrier.sh BENCH-CARRIER [GB] [ROUNDS]
#
# BENCH_CONGESTION=cubic picks the congestion control of carriers (the others
# use the system's), BENCH_POSTCOPY=1 the settings of postcopy.
set -euo pipefail

bench=$1
bytes=$((${2:-2} * 1000000000))
rounds=${3:-3}
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d /tmp/bench-carrier-XXXXXX)
pids=()

finish() {
    for pid in "${pids[@]}"; do
        kill -9 "$pid" 2>/dev/null || true
    done
    pids=()
}
trap 'finish; rm -rf "$dir"' EXIT

run() { # run CORE COMMAND...
    local core=$1
    shift
    taskset -c "$core" "$@" &
    pids+=($!)
    disown
}

wait_for() {
    local i
    for ((i = 0; i < 500; i++)); do
        [[ ! -e $1 ]] || return 0
        sleep 0.01
    done
    echo "bench-carrier: $1 did not appear" >&2
    exit 1
}

measure() { # measure NAME: through $dir/in to $dir/out
    "$bench" measure "$1" "$dir/in" "$dir/out" "$bytes" "${pids[@]}"
    finish
    rm -f "$dir/in" "$dir/out" "$dir/port"
}

carrier() {
    run 1 "$bench" dest "$dir/port" "$dir/out" "$dir/b"
    wait_for "$dir/port"
    run 0 "$bench" source "$dir/port" "$dir/in" "$dir/a"
    wait_for "$dir/in"
    sleep 0.3
    measure carrier
}

stunnel_pair() {
    local port=$((20000 + RANDOM % 20000))
    cat >"$dir/server.conf" <<END
foreground = quiet
pid =
debug = 3
[s]
accept = 127.0.0.1:$port
connect = $dir/out
cert = $dir/b/server-cert.pem
key = $dir/b/server-key.pem
CAfile = $dir/b/ca-cert.pem
verifyChain = yes
requireCert = yes
END
    cat >"$dir/client.conf" <<END
foreground = quiet
pid =
debug = 3
[c]
client = yes
accept = $dir/in
connect = 127.0.0.1:$port
cert = $dir/a/client-cert.pem
key = $dir/a/client-key.pem
CAfile = $dir/a/ca-cert.pem
verifyChain = yes
END
    run 1 stunnel "$dir/server.conf"
    run 0 stunnel "$dir/client.conf"
    wait_for "$dir/in"
    sleep 0.3
    measure stunnel
}

socat_pair() {
    local port=$((20000 + RANDOM % 20000))
    run 1 socat -b 131072 "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" \
        "UNIX-CONNECT:$dir/out"
    sleep 0.3
    run 0 socat -b 131072 "UNIX-LISTEN:$dir/in,fork" "TCP:127.0.0.1:$port"
    wait_for "$dir/in"
    measure socat
}

"$top/scripts/pki" "$dir" a b
echo "bench-carrier: $bytes bytes, system's congestion control" \
    "$(cat /proc/sys/net/ipv4/tcp_congestion_control)," \
    "carriers ${BENCH_CONGESTION:-the same}"
for ((round = 0; round < rounds; round++)); do
    carrier
    ! command -v stunnel >/dev/null || stunnel_pair
    ! command -v socat >/dev/null || socat_pair
done
