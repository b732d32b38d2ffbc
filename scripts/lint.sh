#!/usr/bin/env bash
# What make test leaves out: clippy over the benchmarks, which bring three databases, and the advisories, which need the network.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cargo-fmt cargo-clippy cc
step "formatting" cargo fmt --all --check
step "clippy, over everything" \
    cargo clippy --locked --workspace --all-targets --features semel/cli,semel/tracing,semel/metrics -- -D warnings
step "packages, and advisories about them" scripts/deny.sh advisories
