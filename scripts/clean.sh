#!/usr/bin/env bash
# Removes all that was built, fetched or set up in the project's folder.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

rm -rf "$PROJECT/target" "$TOOLS" "$PROJECT/.data" "$PROJECT"/bindings-python/.{hypothesis,mypy_cache,pytest_cache,ruff_cache}
say "removed target, .tools and .data"
