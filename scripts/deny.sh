#!/usr/bin/env bash
# Licences, sources and bans of all packages, with cargo-deny, which is built once into .tools. With the argument
# `advisories`, known faults of them too; that needs the network.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

version=0.20.2
deny=$TOOLS/bin/cargo-deny

need cargo cc
if [ "$("$deny" --version 2> /dev/null || true)" != "cargo-deny $version" ]; then
    say "building cargo-deny $version into .tools, once"
    CARGO_TARGET_DIR=$TOOLS/build cargo install cargo-deny --version "$version" --locked --force --quiet --root "$TOOLS"
    rm -rf "$TOOLS/build"
fi
"$deny" --locked check licenses sources bans
if [ "${1:-}" = advisories ]; then
    "$deny" --locked check advisories \
        || fail "there are advisories, or their database (https://github.com/rustsec/advisory-db) cannot be fetched: see above"
fi
