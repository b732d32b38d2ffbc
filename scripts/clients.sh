#!/usr/bin/env bash
# Sets up the real clients and services that the tests put around the proxy, inside this project, unless they are here:
# requests, httpx and Flask in a virtual environment of Python, Express in a folder of npm.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

wanted=$PROJECT/tests/clients
place=$TOOLS/clients

# What cannot be had is left out, and said loudly; never in continuous integration.
without() {
    [ -z "${CI:-}" ] || fail "$*"
    printf '\n!!!! NOT TESTED: %s\n\n' "$*" >&2
}

set_up_python() {
    local venv=$place/python
    if [ -x "$venv/bin/python" ] && cmp -s "$wanted/requirements.txt" "$venv/fetched.txt"; then
        return 0
    fi
    if ! command -v python3 > /dev/null; then
        without "real clients in Python: python3 is missing ($(advice python3))"
        return 0
    fi
    say "setting up requests, httpx and Flask in ${venv#"$PROJECT"/}"
    rm -rf "$venv"
    if ! python3 -m venv "$venv"; then
        without "real clients in Python: no virtual environment can be made (Debian, Ubuntu: apt-get install python3-venv)"
        return 0
    fi
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted/requirements.txt"; then
        without "real clients in Python: pip could not fetch tests/clients/requirements.txt; look at its message above"
        return 0
    fi
    # Comes last: it says that all is here.
    cp "$wanted/requirements.txt" "$venv/fetched.txt"
}

set_up_node() {
    local packages=$place/node
    if [ -d "$packages/node_modules/express" ] && cmp -s "$wanted/package-lock.json" "$packages/fetched.json"; then
        return 0
    fi
    if ! command -v npm > /dev/null; then
        without "a real service in Node.js: npm is missing ($(advice npm))"
        return 0
    fi
    say "setting up Express in ${packages#"$PROJECT"/}"
    rm -rf "$packages"
    mkdir -p "$packages"
    cp "$wanted/package.json" "$wanted/package-lock.json" "$packages/"
    if ! (cd "$packages" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error); then
        without "a real service in Node.js: npm could not fetch express; look at its message above"
        return 0
    fi
    cp "$wanted/package-lock.json" "$packages/fetched.json"
}

command -v curl > /dev/null || without "curl as a client: it is missing ($(advice curl))"
set_up_python
set_up_node
