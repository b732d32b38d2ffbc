#!/usr/bin/env bash
# The Python package: builds the wheel, installs it into a venv of its own in .tools, and runs its checks and tests.
# Arguments go to pytest.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo
place=$TOOLS/python
package=$PROJECT/bindings-python
python=$place/bin/python

# Where something cannot be had: an error in CI, and a notice at a desk without the network.
cannot() {
    if [ "${CI:-}" = true ]; then
        fail "$1"
    fi
    say "not tested: the Python package: $1"
    exit 0
}

command -v python3 > /dev/null || cannot "python3 is missing: $(advice python3)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || cannot "Python 3.10 or newer is needed, and python3 is $(python3 --version 2>&1)"
if ! cmp -s "$package/requirements-test.txt" "$place/fetched.txt" || ! "$python" --version > /dev/null 2>&1; then
    say "fetching maturin and what the Python tests need with pip into ${place#"$PROJECT"/}"
    rm -rf "$place"
    python3 -m venv "$place" > "$TOOLS/python.log" 2>&1 \
        || cannot "python3 makes no venv (Debian, Ubuntu: apt-get install python3-venv); $TOOLS/python.log says why"
    "$python" -m pip install --quiet --disable-pip-version-check --requirement "$package/requirements-test.txt" > "$TOOLS/python.log" 2>&1 \
        || cannot "pip could not fetch the packages of bindings-python/requirements-test.txt; $TOOLS/python.log says why"
    # Comes last: it says that all is here.
    cp "$package/requirements-test.txt" "$place/fetched.txt"
fi

wheels=$(mktemp -d "${TMPDIR:-/tmp}/semel-wheels.XXXXXX")
trap 'rm -rf "$wheels"' EXIT
# The profile of all tests, and the same target folder: what is built for them is not built again.
step "building the wheel" "$place/bin/maturin" build --locked --profile dev --quiet --interpreter "$python" --manifest-path "$package/Cargo.toml" --out "$wheels"
step "installing it" "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/semel-*.whl
cd "$package"
step "ruff" "$place/bin/ruff" check --quiet python tests
step "formatting of Python" "$place/bin/ruff" format --check --quiet python tests
step "types" "$python" -m mypy
step "types of the native half" "$python" -m mypy.stubtest semel._native
step "tests of the Python package" "$python" -m pytest --quiet --numprocesses 2 "$@"
