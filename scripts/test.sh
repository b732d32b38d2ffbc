#!/usr/bin/env bash
# All tests, with all set-up. `make lint` has what is left out: the benchmarks, and what needs the network each time.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cargo-fmt cargo-clippy cc node npm

step "formatting" cargo fmt --all --check
step "real input" scripts/payloads.sh
step "real clients" scripts/clients.sh
step "clippy" cargo clippy "${BUILD[@]}" --all-targets -- -D warnings
step "clippy, with tracing and metrics" cargo clippy --locked --package semel --features tower,tracing,metrics -- -D warnings
step "clippy, without the log on disk" cargo clippy --locked --package semel --no-default-features --lib --tests -- -D warnings
# Building cargo-deny takes about as long as building all of semel: make lint does it, and from then on it is here.
if [ -x "$TOOLS/bin/cargo-deny" ]; then
    step "licences, sources and bans of packages" scripts/deny.sh
else
    say "not checked: licences and sources of packages; make lint sets up cargo-deny and checks them"
fi
step "building" cargo build "${BUILD[@]}" --lib --bins --examples
step "unit tests and the suite" cargo test "${BUILD[@]}" --lib --bins --tests
scripts/interleavings.sh
step "examples in the documentation" cargo test "${BUILD[@]}" --doc
scripts/python.sh
say "all tests passed"
