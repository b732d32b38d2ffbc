#!/usr/bin/env bash
# All tests, with all set-up. `make lint` has what is left out: the benchmarks, and what needs the network each time.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cargo-fmt cargo-clippy cc node npm

step "formatting" cargo fmt --all --check
step "real input" scripts/payloads.sh
step "clippy" cargo clippy "${BUILD[@]}" --all-targets -- -D warnings
step "clippy, with tracing and metrics" cargo clippy --locked --package semel --features tracing,metrics -- -D warnings
step "licences, sources and bans of packages" scripts/deny.sh
step "building" cargo build "${BUILD[@]}"
step "unit tests and the suite" cargo test "${BUILD[@]}" --lib --bins --tests
step "examples in the documentation" cargo test "${BUILD[@]}" --doc
say "all tests passed"
