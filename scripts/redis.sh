#!/usr/bin/env bash
# A redis-server for the benchmarks, unpacked inside this project where none is installed. Without one they leave it out and say so.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

place=$TOOLS/redis
if command -v redis-server > /dev/null || [ -x "$place/usr/bin/redis-server" ]; then
    exit 0
fi
if ! command -v apt-get > /dev/null || ! command -v dpkg > /dev/null; then
    say "redis-server is missing: what is measured beside it is left out (install it to have it measured)"
    exit 0
fi
mkdir -p "$place/packages"
cd "$place/packages"
if ! apt-get download redis-server redis-tools libjemalloc2 liblzf1 liblua5.1-0 > "$place/log" 2>&1; then
    say "redis-server could not be fetched ($place/log says why): what is measured beside it is left out"
    exit 0
fi
for package in *.deb; do
    dpkg -x "$package" "$place"
done
