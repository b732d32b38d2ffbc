#!/usr/bin/env bash
# Interleavings of the concurrency core, in a build of its own whose locks and threads are shuttle's: core/src/sync.rs.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cc
export RUSTFLAGS="--cfg semel_shuttle ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/interleavings"
step "interleavings" cargo test --locked --package semel --test interleavings "$@"
