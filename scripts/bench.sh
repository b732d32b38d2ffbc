#!/usr/bin/env bash
# Measures semel beside its rivals in one run and prints the tables of docs/benchmarks.md. Arguments go to the harness.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cc
scripts/redis.sh
if [ -x "$TOOLS/redis/usr/bin/redis-server" ]; then
    PATH=$PATH:$TOOLS/redis/usr/bin
    LD_LIBRARY_PATH=$(find "$TOOLS/redis/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PATH LD_LIBRARY_PATH
fi
step "building the benchmarks" cargo build --locked --release --package semel-benches
cargo run --locked --release --quiet --package semel-benches -- "$@"
