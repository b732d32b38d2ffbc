"""Many processes at one store, with no line of configuration: forked, spawned, started by themselves, and served by others."""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import semel

KEYS = 30
DEADLINE_SECONDS = 60


def effects(place: str, key: int) -> int:
    """One effect outside of the store: a line in a file."""
    with open(f"{place}.effects", "a") as file:
        file.write(f"{key}\n")
    return os.getpid()


def work_all(store: semel.Store, place: str) -> list[int]:
    return [store.run("o", key, lambda key=key: effects(place, key), wait=DEADLINE_SECONDS) for key in range(KEYS)]


def forked(store: semel.Store, place: str, results: Any) -> None:
    results.put(work_all(store, place))


def spawned(place: str, results: Any) -> None:
    with semel.open(place) as store:
        results.put(work_all(store, place))


def check(place: str, results: list[list[int]]) -> None:
    """Everybody got the same results, and each effect was made once."""
    assert len({tuple(result) for result in results}) == 1
    lines = pathlib.Path(f"{place}.effects").read_text().split()
    assert sorted(map(int, lines)) == list(range(KEYS))


def gathered(processes: list[Any], results: Any) -> list[list[int]]:
    for process in processes:
        process.start()
    told = [results.get(timeout=DEADLINE_SECONDS) for _ in processes]
    for process in processes:
        process.join(DEADLINE_SECONDS)
        assert process.exitcode == 0
    return told


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_workers_use_the_handle_of_their_parent(place: pathlib.Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with semel.open(place) as store:
        store.claim("warm", "1").complete()
        processes = [context.Process(target=forked, args=(store, str(place), results)) for _ in range(4)]
        told = gathered(processes, results)
        check(str(place), [*told, work_all(store, str(place))])
        assert store.is_owner


def test_spawned_workers_open_the_store_themselves(place: pathlib.Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=spawned, args=(str(place), results)) for _ in range(3)]
    check(str(place), gathered(processes, results))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_of_a_store_that_is_not_shared_is_told(place: pathlib.Path) -> None:
    with semel.open(place, shared="never") as store:
        claim = store.claim("o", "1")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            told = []
            for call in (lambda: store.claim("o", "2"), lambda: claim.complete(1), lambda: store.lookup("o", "1")):
                try:
                    call()
                    told.append("no error")
                except BaseException as error:
                    told.append(type(error).__name__)
            os.write(write, json.dumps(told).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert json.loads(pipe.read()) == ["ForkedProcess"] * 3
        assert os.waitpid(child, 0)[1] == 0
        claim.complete("the parent's")
        assert store.claim("o", "1").result() == "the parent's"


def test_another_process_is_told_who_holds_a_store_that_is_not_shared(place: pathlib.Path) -> None:
    with semel.open(place, shared="never"):
        code = f"import semel\ntry: semel.open({str(place)!r})\nexcept semel.StoreLocked as error: print(error)"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert str(os.getpid()) in told.stdout, told.stderr
        with pytest.raises(semel.StoreError):
            semel.open(place, shared="only")


def test_others_go_on_when_the_owner_is_killed(place: pathlib.Path) -> None:
    code = f"import semel, time; s = semel.open({str(place)!r}); s.run('o', 'first', lambda: 1); print('up', flush=True); time.sleep(600)"
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        with semel.open(place) as store:
            assert not store.is_owner
            claim = store.claim("o", "mine")
            owner.kill()
            owner.wait()
            assert store.run("o", "first", lambda: pytest.fail("ran again")) == 1
            claim.complete("kept")
            assert store.claim("o", "mine").result() == "kept"
            assert store.is_owner
    finally:
        owner.kill()
        owner.wait()
        owner.stdout and owner.stdout.close()


APP = """
import os, semel

PLACE = os.environ["PLACE"]
store = semel.open(PLACE)


@store.idempotent("order.create", key="key", wait=30)
def create(key):
    with open(PLACE + ".effects", "a") as file:
        file.write(key + "\\n")
    return os.getpid()


def wsgi(environ, start_response):
    pid = create(environ["PATH_INFO"][1:])
    body = f"{pid} {os.getpid()}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@store.idempotent("order.async", key="key", wait=30)
async def create_async(key):
    with open(PLACE + ".effects", "a") as file:
        file.write(key + "\\n")
    return os.getpid()


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    pid = await create_async(scope["path"][1:])
    body = f"{pid} {os.getpid()}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def served(command: list[str], folder: pathlib.Path, place: pathlib.Path) -> Iterator[None]:
    (folder / "shop.py").write_text(textwrap.dedent(APP))
    environment = {**os.environ, "PLACE": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    log = (folder / "log").open("w+")
    server = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, 9)
            server.wait()
        log.close()


def ask(port: int, path: str) -> tuple[str, str]:
    """Asks until the server is up; then who ran it, and who answered."""
    until = time.monotonic() + DEADLINE_SECONDS
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("POST", path)
            response = connection.getresponse()
            body = response.read().decode()
            assert response.status == 200, body
            ran, answered = body.split()
            return ran, answered
        except (ConnectionError, http.client.RemoteDisconnected):
            if time.monotonic() > until:
                raise
            threading.Event().wait(0.05)
        finally:
            connection.close()


def hammer(port: int, place: pathlib.Path) -> None:
    """Each key from many callers at once: one ran it, and all were told by whom."""
    keys = [f"/k{n}" for n in range(20)]
    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(lambda key: (key, ask(port, key)), keys * 8))
    by_key: dict[str, set[str]] = {}
    for key, (ran, _) in told:
        by_key.setdefault(key, set()).add(ran)
    assert all(len(ran) == 1 for ran in by_key.values()), by_key
    assert len({answered for _, (_, answered) in told}) > 1, "only one worker has answered"
    lines = pathlib.Path(f"{place}.effects").read_text().split()
    assert sorted(lines) == sorted(key[1:] for key in keys)


def test_gunicorn_with_a_preloaded_store(place: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("gunicorn")
    port = free_port()
    command = ["gunicorn", "--preload", "--workers", "4", "--bind", f"127.0.0.1:{port}", "--no-control-socket", "shop:wsgi"]
    with served(command, tmp_path, place):
        hammer(port, place)


def test_uvicorn_with_four_workers(place: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("uvicorn")
    port = free_port()
    with served(["uvicorn", "--workers", "4", "--port", str(port), "--log-level", "warning", "shop:asgi"], tmp_path, place):
        hammer(port, place)
