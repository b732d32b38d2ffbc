"""Callers of HTTP: one key over all attempts of one call, and an end where asking again is of no use."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import semel
from semel.client import AsyncIdempotencyTransport, IdempotencyAdapter, IdempotencyTransport

httpx = pytest.importorskip("httpx")
requests = pytest.importorskip("requests")

PROBLEM = {"content-type": "application/problem+json"}


def problem(kind: str, **more: Any) -> bytes:
    return json.dumps({"type": f"urn:semel:problem:{kind}", "detail": "why", **more}).encode()


class Served:
    """A server that gives the answers that were written down, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[tuple[str, str | None, bytes]] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                served.asked.append((self.command, self.headers["Idempotency-Key"], body))
                told = served.answers.pop(0) if served.answers else (201, {}, b"made")
                if told == "break":
                    self.close_connection = True
                    return
                status, fields, content = told
                self.send_response(status)
                for name, value in {**fields, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PATCH = do_PUT = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Caller:
    """One of the libraries."""

    def __init__(self, library: str, **options: Any) -> None:
        self.library = library
        self.pauses: list[float] = []
        self.options = options

    async def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def post(self, url: str, body: Any = b"{}", method: str = "POST", **fields: str) -> int:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        if self.library == "requests":
            with requests.Session() as session:
                session.mount("http://", IdempotencyAdapter(sleep=self.pauses.append, **self.options))
                return int(session.request(method, url, data=body, headers=headers).status_code)
        if self.library == "httpx":
            with httpx.Client(transport=IdempotencyTransport(sleep=self.pauses.append, **self.options)) as client:
                return int(client.request(method, url, content=body, headers=headers).status_code)

        async def ask() -> int:
            async with httpx.AsyncClient(transport=AsyncIdempotencyTransport(sleep=self.wait, **self.options)) as client:
                return int((await client.request(method, url, content=body, headers=headers)).status_code)

        return asyncio.run(ask())


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(params=["httpx", "httpx async", "requests"])
def caller(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def test_one_key_over_all_attempts_and_never_over_two_calls(served: Served, caller: Caller) -> None:
    served.answers = [
        "break",
        (503, {"retry-after": "7"}, b""),
        (409, {**PROBLEM, "retry-after": "2"}, problem("in-flight")),
        (201, {}, b"made"),
    ]
    assert caller.post(served.url, b"body") == 201
    keys = {key for _, key, _ in served.asked}
    assert (len(served.asked), len(keys)) == (4, 1)
    assert {body for _, _, body in served.asked} == {b"body"}
    assert caller.pauses[1:] == [7.0, 2.0]
    assert 0 < caller.pauses[0] <= 0.2
    assert caller.post(served.url) == 201
    assert served.asked[-1][1] not in keys


def test_a_key_of_ones_own_is_kept(served: Served, caller: Caller) -> None:
    served.answers = [(502, {}, b"")]
    assert caller.post(served.url, Idempotency_Key="ORDER_1") == 201
    assert [key for _, key, _ in served.asked] == ["ORDER_1", "ORDER_1"]


def test_other_methods_are_sent_once_and_without_a_key(served: Served, caller: Caller) -> None:
    served.answers = [(503, {}, b"")]
    assert caller.post(served.url, method="PUT") == 503
    assert [key for _, key, _ in served.asked] == [None]


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (422, "key-reused", semel.Mismatch),
        (410, "answer-gone", semel.Gone),
        (409, "in-doubt", semel.InDoubt),
        (500, "broken-off", semel.InDoubt),
        (504, "upstream-timeout", semel.InDoubt),
    ],
)
def test_where_asking_again_is_of_no_use(
    served: Served, caller: Caller, status: int, kind: str, error: type[semel.Error]
) -> None:
    served.answers = [(status, PROBLEM, problem(kind, fields=["body.amount"]))]
    with pytest.raises(error, match=r"'K'.*why") as told:
        caller.post(served.url, Idempotency_Key="K")
    assert (len(served.asked), caller.pauses) == (1, [])
    if error is semel.Mismatch:
        assert told.value.fields == ("body.amount",)  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", [200, 400, 402, 409, 410, 422, 500])
def test_every_other_answer_is_returned(served: Served, caller: Caller, status: int) -> None:
    served.answers = [(status, {"content-type": "application/json"}, b"{}")]
    assert caller.post(served.url) == status
    assert len(served.asked) == 1


def test_the_last_attempt_tells(served: Served) -> None:
    for library in ("httpx", "httpx async", "requests"):
        caller = Caller(library, attempts=2)
        served.answers = [(409, {**PROBLEM, "retry-after": "1"}, problem("in-flight"))] * 2
        with pytest.raises(semel.Busy) as told:
            caller.post(served.url)
        assert told.value.retry_after == 1.0
        served.answers = [(503, {}, b"")] * 2
        assert caller.post(served.url) == 503
        served.answers = ["break"] * 2
        with pytest.raises((httpx.TransportError, requests.ConnectionError)):
            caller.post(served.url)
        assert served.answers == []


def test_who_asks_for_too_long_is_not_waited_for(served: Served, caller: Caller) -> None:
    served.answers = [(503, {"retry-after": "3600"}, b"")]
    assert caller.post(served.url) == 503
    served.answers = [(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b""), (429, {"retry-after": "soon"}, b"")]
    assert caller.post(served.url) == 201
    assert caller.pauses[0] == 0.0


def test_a_body_that_can_be_read_once_is_sent_again(served: Served) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        yield b"b"

    served.answers = [(503, {}, b"")]
    assert Caller("requests").post(served.url, pieces()) == 201
    assert [body for _, _, body in served.asked] == [b"ab", b"ab"]
    seen = []

    def answer(request: Any) -> Any:
        seen.append(request.read())
        return httpx.Response(503 if len(seen) == 1 else 201)

    transport = IdempotencyTransport(httpx.MockTransport(answer), sleep=lambda seconds: None)
    with httpx.Client(transport=transport) as client:
        assert client.post("http://shop.example/", content=pieces()).status_code == 201
    assert seen == [b"ab", b"ab"]


def test_attempts_are_checked() -> None:
    with pytest.raises(semel.InvalidInput):
        IdempotencyTransport(attempts=0)
