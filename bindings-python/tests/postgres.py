"""A PostgreSQL server for the tests that need a real one: in a directory of its own, on a socket alone."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

#: Who runs the server where the tests are run by root, which it refuses.
USER = "postgres"


@contextmanager
def server() -> Iterator[str | None]:
    """How to connect; None where there is no server to be had."""
    tools = {tool: shutil.which(tool) for tool in ("initdb", "pg_ctl")}
    become = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
    if None in tools.values() or (become and shutil.which("runuser") is None):
        yield None
        return
    place = pathlib.Path(tempfile.mkdtemp(prefix="semel-pg-"))
    try:
        if become:
            shutil.chown(place, USER)
        data = str(place / "data")
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": place}
        subprocess.run([*become, tools["initdb"], "-D", data, "-U", "semel", "-A", "trust", "--no-sync", "-E", "UTF8"], **quiet)  # type: ignore[call-overload]
        options = f"-c listen_addresses='' -c unix_socket_directories='{place}' -c fsync=off"
        subprocess.run([*become, tools["pg_ctl"], "-D", data, "-w", "-l", str(place / "log"), "-o", options, "start"], **quiet)  # type: ignore[call-overload]
        try:
            yield f"host={place} user=semel dbname=postgres"
        finally:
            subprocess.run([*become, tools["pg_ctl"], "-D", data, "-m", "immediate", "stop"], **quiet)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(place, ignore_errors=True)
