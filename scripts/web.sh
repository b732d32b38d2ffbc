#!/usr/bin/env bash
# nginx and wrk for the benchmarks, unpacked inside this project where they are not installed.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

unpack web "nginx wrk" nginx wrk libluajit-5.1-2 libluajit-5.1-common
