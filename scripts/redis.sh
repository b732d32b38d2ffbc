#!/usr/bin/env bash
# A redis-server for the benchmarks, unpacked inside this project where none is installed.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

unpack redis redis-server redis-server redis-tools libjemalloc2 liblzf1 liblua5.1-0
