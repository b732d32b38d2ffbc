#!/usr/bin/env bash
# The checks that are slow to set up: clippy over the benchmarks with their databases, and cargo-deny, which is built
# once into .tools.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

deny_version=0.20.2

need cargo cargo-fmt cargo-clippy cc
step "formatting" cargo fmt --all --check
step "clippy, over everything" cargo clippy --locked --workspace --all-targets --features semel/cli,semel/tracing,semel/metrics -- -D warnings

deny=$TOOLS/bin/cargo-deny
if [ "$("$deny" --version 2> /dev/null || true)" != "cargo-deny $deny_version" ]; then
    step "building cargo-deny $deny_version into .tools (once, some minutes)" \
        env CARGO_TARGET_DIR="$TOOLS/build" cargo install cargo-deny --version "$deny_version" --locked --force --root "$TOOLS"
    rm -rf "$TOOLS/build"
fi
step "licences, sources and duplicate packages" "$deny" --locked check licenses sources bans
if "$deny" --locked fetch db; then
    step "security advisories" "$deny" --locked check --disable-fetch advisories
else
    fail "the advisory database (https://github.com/rustsec/advisory-db) cannot be fetched; advisories were NOT checked, all else is well"
fi
