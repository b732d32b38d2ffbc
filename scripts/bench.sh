#!/usr/bin/env bash
# Measures semel beside its rivals in one run and prints the tables of docs/benchmarks.md. Arguments go to the harness.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cc
for rivals in redis web; do
    "scripts/$rivals.sh"
    found_in "$rivals"
done
step "building the benchmarks" cargo build --locked --release --package semel-benches
cargo run --locked --release --quiet --package semel-benches -- "$@"
