"""The WSGI middleware: raw, under Flask and Django, and under gunicorn."""

from __future__ import annotations

import io
import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import semel
from semel.wsgi import IdempotencyMiddleware

KEY = {"HTTP_IDEMPOTENCY_KEY": "k"}


class Answer:
    """An answer as a server reads it."""

    def __init__(
        self, app: Any, body: bytes = b"{}", method: str = "POST", path: str = "/orders", read: int = -1, **more: Any
    ) -> None:
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            **more,
        }
        self.starts: list[tuple[str, list[tuple[str, str]]]] = []
        pieces = app(environ, self.start)
        try:
            self.pieces = [piece for _, piece in zip(range(read), pieces)] if read >= 0 else list(pieces)  # noqa: B905
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        self.status = int(self.starts[-1][0].split()[0])
        self.fields = {name.lower(): value for name, value in self.starts[-1][1]}
        self.body = b"".join(self.pieces)

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        self.starts.append((status, headers))
        return lambda piece: None

    @property
    def problem(self) -> str:
        assert self.fields["content-type"] == "application/problem+json"
        return str(json.loads(self.body)["type"]).removeprefix("urn:semel:problem:")

    @property
    def replayed(self) -> bool:
        return self.fields.get("idempotent-replayed") == "true"


class Counting:
    def __init__(self, handler: Any = None) -> None:
        self.count = 0
        self.handler = handler
        self.bodies: list[bytes] = []
        self.closed = 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.count += 1
        if self.handler is not None:
            return self.handler(environ, start_response)
        self.bodies.append(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        start_response("201 Created", [("Content-Type", "application/json"), ("Set-Cookie", "who=ann")])
        return [b'{"id":', b"7}"]


def guarded(store: semel.Store, handler: Any = None, **rules: Any) -> tuple[IdempotencyMiddleware, Counting]:
    inner = Counting(handler)
    return IdempotencyMiddleware(inner, store, **{"scope": semel.GLOBAL, **rules}), inner


def test_a_repeat_gets_the_first_answer(store: semel.Store) -> None:
    app, inner = guarded(store)
    first = Answer(app, b'{"a": 1}', **KEY)
    again = Answer(app, b'{"a":1.0}', **KEY)
    assert (first.status, first.body, first.replayed, first.fields["set-cookie"]) == (201, b'{"id":7}', False, "who=ann")
    assert (again.status, again.body, again.replayed) == (201, b'{"id":7}', True)
    assert "set-cookie" not in again.fields
    assert again.starts[0][0] == "201 Created"
    assert (inner.count, inner.bodies) == (1, [b'{"a": 1}'])
    assert Answer(app, b'{"a":2}', **KEY).problem == "key-reused"


def test_what_is_not_guarded_passes(store: semel.Store) -> None:
    app, inner = guarded(store, routes=[("/search", None)], required=False)
    for asked in ({"method": "GET", **KEY}, {"path": "/search", **KEY}, {}):
        for _ in range(2):
            assert not Answer(app, **asked).replayed
    assert inner.count == 6


@pytest.mark.parametrize(
    ("asked", "status", "problem"),
    [
        ({}, 400, "key-missing"),
        ({"HTTP_IDEMPOTENCY_KEY": "a,b"}, 400, "key-malformed"),
        ({"body": b"123456", **KEY}, 413, "body-too-large"),
        ({"body": b"123456", "CONTENT_LENGTH": "", "wsgi.input_terminated": True, **KEY}, 413, "body-too-large"),
        ({"body": b"12", "CONTENT_LENGTH": "3", **KEY}, 400, "request-malformed"),
        ({"CONTENT_LENGTH": "x", **KEY}, 400, "request-malformed"),
        ({"REMOTE_USER": "", **KEY}, 400, "request-malformed"),
    ],
)
def test_refusals(store: semel.Store, asked: Any, status: int, problem: str) -> None:
    app, inner = guarded(store, max_body_bytes=5, scope=lambda environ: environ.get("REMOTE_USER", "ann") or None)
    told = Answer(app, **asked)
    assert (told.status, told.problem, inner.count) == (status, problem, 0)


def test_a_body_that_breaks_off_claims_nothing(store: semel.Store) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise ConnectionResetError

    app, inner = guarded(store)
    told = Answer(app, **{"wsgi.input": Broken(), **KEY})
    assert (told.problem, inner.count, store.lookup("http", "k")) == ("request-malformed", 0, None)


@pytest.mark.parametrize(("status", "again", "told"), [(429, 2, 429), (402, 1, 402), (500, 1, 409)])
def test_statuses(store: semel.Store, status: int, again: int, told: int) -> None:
    def handler(environ: Any, start_response: Any) -> Any:
        start_response(f"{status} Whatever", [])
        return [b"x"]

    app, inner = guarded(store, handler)
    assert Answer(app, **KEY).status == status
    assert (Answer(app, **KEY).status, inner.count) == (told, again)


def test_a_handler_may_know_more_than_its_status_tells(store: semel.Store) -> None:
    keys = []

    def handler(environ: Any, start_response: Any) -> Any:
        environ["semel"].ending = "not_sent"
        keys.append(semel.current().derive_key("charge"))  # type: ignore[union-attr]
        assert environ["semel"].derive_key("charge") == keys[-1]
        start_response("503 Service Unavailable", [])
        yield b"later"

    app, _ = guarded(store, handler)
    for _ in range(2):
        assert Answer(app, **KEY).body == b"later"
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert semel.current() is None


class Pieces:
    """An iterable that fails, or not, and is to be closed once."""

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self.closed += 1


def of(pieces: Pieces, status: str = "200 OK", **fields: str) -> Any:
    def handler(environ: Any, start_response: Any) -> Any:
        start_response(status, [(name.replace("_", "-"), value) for name, value in fields.items()])
        return pieces

    return handler


@pytest.mark.parametrize("pieces", [[ValueError("no")], [b"half", ValueError("no")]])
def test_an_exception_leaves_a_doubt(store: semel.Store, pieces: list[Any]) -> None:
    made = Pieces(pieces)
    app, inner = guarded(store, of(made))
    told = Answer(app, **KEY)
    assert (told.status, told.problem, made.closed) == (500, "broken-off", 1)
    assert (Answer(app, **KEY).problem, inner.count) == ("in-doubt", 1)
    assert "ValueError" in str(store.unresolved()[0].doubt)


def test_an_interrupt_leaves_a_doubt_and_goes_on(store: semel.Store) -> None:
    def handler(environ: Any, start_response: Any) -> Any:
        raise KeyboardInterrupt

    app, _ = guarded(store, handler)
    with pytest.raises(KeyboardInterrupt):
        Answer(app, **KEY)
    assert Answer(app, **KEY).problem == "in-doubt"


def test_write_and_a_second_start_with_exc_info(store: semel.Store) -> None:
    def handler(environ: Any, start_response: Any) -> Any:
        write = start_response("200 OK", [])
        write(b"a")
        yield b"b"
        write(b"c")
        try:
            raise ValueError
        except ValueError:
            start_response("402 Payment Required", [], sys.exc_info())
        yield b"d"

    app, inner = guarded(store, handler)
    for _ in range(2):
        told = Answer(app, **KEY)
        assert (told.status, told.body) == (402, b"abcd")
    assert inner.count == 1


@pytest.mark.parametrize("read", [-1, 1])
@pytest.mark.parametrize("fields", [{"Content_Type": "text/event-stream"}, {"Content_Length": "13"}, {}])
def test_what_is_not_kept_goes_out_and_is_recorded(store: semel.Store, fields: dict[str, str], read: int) -> None:
    made = Pieces([b"123456", b"789012", b"3"])
    app, inner = guarded(store, of(made, **fields), max_kept_bytes=10)
    told = Answer(app, read=read, **KEY)
    assert told.body == (b"1234567890123" if read < 0 else b"123456")
    assert made.closed == 1
    assert (Answer(app, **KEY).problem, inner.count) == ("answer-gone", 1)


def test_a_stream_that_breaks_off_leaves_a_doubt(store: semel.Store) -> None:
    made = Pieces([b"1", ValueError("no")])
    app, _ = guarded(store, of(made, Content_Type="text/event-stream"))
    with pytest.raises(ValueError, match="no"):
        Answer(app, **KEY)
    assert made.closed == 1
    assert Answer(app, **KEY).problem == "in-doubt"


def test_an_answer_that_cannot_be_recorded_is_not_shown(store: semel.Store) -> None:
    def handler(environ: Any, start_response: Any) -> Any:
        store.close()
        start_response("200 OK", [])
        return [b"secret"]

    app, _ = guarded(store, handler)
    told = Answer(app, **KEY)
    assert (told.status, told.problem) == (503, "not-recorded")


def test_tokens_and_other_origins(store: semel.Store) -> None:
    app, inner = guarded(store, token_route=[("/token", "checkout", "5m")], tokens="checkout", cors=True)
    issued = Answer(app, path="/token")
    assert issued.status == 201
    key = {"HTTP_IDEMPOTENCY_KEY": json.loads(issued.body)["token"]}
    assert Answer(app, **KEY).problem == "token-refused"
    assert Answer(app, **key).fields["access-control-expose-headers"] == "idempotent-replayed, retry-after"
    assert Answer(app, **key).replayed
    assert inner.count == 1


def test_under_flask(store: semel.Store) -> None:
    import flask

    app = flask.Flask("shop")
    app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, store, scope=lambda environ: environ.get("HTTP_X_USER"))  # type: ignore[method-assign]
    done = []

    @app.post("/orders/<name>")
    def create(name: str) -> Any:
        done.append(flask.request.environ["semel"].derive_key("charge"))
        return {"name": name, "amount": flask.request.get_json()["amount"]}, 201

    @app.post("/fails")
    def fails() -> Any:
        raise ValueError

    client = app.test_client()
    fields = {"Idempotency-Key": "k", "X-User": "ann"}
    for _ in range(2):
        told = client.post("/orders/a%20b", json={"amount": 3}, headers=fields)
        assert (told.status_code, told.get_json()) == (201, {"name": "a b", "amount": 3})
    assert told.headers["Idempotent-Replayed"] == "true"
    assert len(done) == 1
    assert client.post("/orders/a", json={"amount": 3}, headers=fields).status_code == 422
    fields["Idempotency-Key"] = "f"
    assert [client.post("/fails", headers=fields).status_code for _ in range(2)] == [500, 409]


SERVED = """
import os, time
import semel
from semel.wsgi import IdempotencyMiddleware

store = semel.open(os.environ["SEMEL_TEST_STORE"])

def inner(environ, start_response):
    with open(os.environ["SEMEL_TEST_STORE"] + ".log", "a") as log:
        log.write("x")
    if environ["wsgi.input"].read() == b"slow":
        time.sleep(0.3)
    start_response("201 Created", [])
    return [str(os.getpid()).encode()]

app = IdempotencyMiddleware(inner, store, scope=semel.GLOBAL, wait=10)
"""


@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["plain", "preload"])
async def test_under_gunicorn(tmp_path: pathlib.Path, preload: list[str]) -> None:
    import asyncio

    import httpx

    (tmp_path / "served.py").write_text(SERVED)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        listening.set_inheritable(True)
        bind = ["--bind", f"fd://{listening.fileno()}"]
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "served:app",
            "--workers",
            "2",
            "--threads",
            "4",
            "--worker-class",
            "gthread",
        ]
        process = subprocess.Popen(
            [*command, *bind, *preload, "--log-level", "warning", "--no-control-socket"],
            cwd=tmp_path,
            env={**os.environ, "SEMEL_TEST_STORE": str(tmp_path / "s")},
            pass_fds=[listening.fileno()],
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                fields = {"Idempotency-Key": "k"}
                told = await asyncio.gather(*(client.post("/", content=b"slow", headers=fields) for _ in range(6)))
                assert {(answer.status_code, answer.text) for answer in told} == {(201, told[0].text)}
                assert (tmp_path / "s.log").read_text() == "x"

                async def pieces() -> Any:
                    yield b"sl"
                    yield b"ow"

                chunked = await client.post("/", content=pieces(), headers=fields)
                assert (chunked.status_code, chunked.headers["idempotent-replayed"]) == (201, "true")
        finally:
            process.terminate()
            process.wait(30)
