#!/usr/bin/env bash
# All tests, with all set-up. `make lint` has the checks that are slow to set up.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cargo-fmt cargo-clippy cc node npm python3

step "formatting" cargo fmt --all --check
step "real input" scripts/payloads.sh
step "clippy" cargo clippy "${BUILD[@]}" --all-targets -- -D warnings
step "clippy, with tracing and metrics" cargo clippy --locked --package semel --features tracing,metrics -- -D warnings
step "building" cargo build "${BUILD[@]}"
step "unit tests and the suite" cargo test "${BUILD[@]}" --lib --bins --tests
step "examples in the documentation" cargo test --locked --package semel --features cli --doc
say "all tests passed"
