# What the other scripts stand on: where the project is, how they speak, and whether a tool is here. Sourced, not run.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PROJECT=$(pwd)
TOOLS=$PROJECT/.tools
export PROJECT TOOLS

# Rust puts itself here and tells only new shells.
if ! command -v cargo > /dev/null && [ -x "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo" ]; then
    PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
fi

# One selection of packages and features for everything that is built here, so that nothing is built twice. The benchmarks
# bring three databases with them and have targets of their own.
BUILD=(--locked --workspace --exclude semel-benches --features semel/cli,semel/macros)

say() {
    printf '== %s\n' "$*" >&2
}

fail() {
    printf '!! %s\n' "$*" >&2
    exit 1
}

# Runs a step under a title, and says how long it took.
step() {
    local title=$1 began=$SECONDS
    shift
    say "$title"
    if ! "$@"; then
        fail "failed: $title ($*)"
    fi
    say "done in $((SECONDS - began)) s: $title"
}

# Unpacks packages of Debian in a folder of this project, unless all the programs that are wanted are here already:
# unpack FOLDER "PROGRAMS" PACKAGE... Where they cannot be had it says so, and what needs them says that it did not run.
unpack() {
    local place=$TOOLS/$1 programs=$2 program missing=
    shift 2
    for program in $programs; do
        if ! command -v "$program" > /dev/null && [ -z "$(find "$place" -path "*bin/$program" 2> /dev/null)" ]; then
            missing="$missing $program"
        fi
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get > /dev/null || ! command -v dpkg > /dev/null; then
        say "not here, and no Debian to fetch it from:$missing; install it to have measured beside it"
        return 0
    fi
    mkdir -p "$place/packages"
    if ! (cd "$place/packages" && apt-get download "$@" > "$place/log" 2>&1); then
        say "could not be fetched ($place/log says why):$missing; it is not measured beside"
        return 0
    fi
    for program in "$place"/packages/*.deb; do
        dpkg -x "$program" "$place"
    done
}

# Lets programs be found that were unpacked in a folder of this project.
found_in() {
    local place=$TOOLS/$1 libraries
    if [ -d "$place/usr" ]; then
        PATH=$PATH:$place/usr/bin:$place/usr/sbin
        libraries=$(find "$place/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
        LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        export PATH LD_LIBRARY_PATH
    fi
}

# How to get a tool that is not here.
advice() {
    case $1 in
        cargo) echo "install Rust 1.90 or newer from https://rustup.rs" ;;
        cargo-fmt) echo "run: rustup component add rustfmt" ;;
        cargo-clippy) echo "run: rustup component add clippy" ;;
        cc) echo "install a C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install)" ;;
        node | npm) echo "install Node.js 20 or newer with npm (https://nodejs.org; Debian 13, Ubuntu 24.10 and newer: apt-get install nodejs npm)" ;;
        python3) echo "install Python 3.10 or newer (Debian, Ubuntu: apt-get install python3; macOS: xcode-select --install)" ;;
        *) echo "install $1" ;;
    esac
}

# Checks that tools are here; names all that are not, each with the way to get it.
need() {
    local tool missing=0
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            printf '!! %s is missing: %s\n' "$tool" "$(advice "$tool")" >&2
            missing=1
        fi
    done
    [ "$missing" = 0 ] || exit 69
}
