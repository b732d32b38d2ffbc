"""The ASGI middleware: what clients, handlers and servers get to see, raw, under Starlette and FastAPI, and under uvicorn."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pydantic
import pytest
import semel
import semel.aio
from semel.asgi import IdempotencyMiddleware

KEY = {"idempotency-key": "k"}
Handler = Callable[[Any, Any, Any], Awaitable[None]]


class Order(pydantic.BaseModel):
    """Here, where FastAPI finds it by its name."""

    amount: int


class Answer:
    def __init__(self, messages: list[dict[str, Any]]) -> None:
        starts = [message for message in messages if message["type"] == "http.response.start"]
        assert len(starts) == 1
        self.status: int = starts[0]["status"]
        self.fields = {name.decode().lower(): value.decode() for name, value in starts[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in messages if message["type"] == "http.response.body")

    @property
    def problem(self) -> str:
        assert self.fields["content-type"] == "application/problem+json"
        return str(json.loads(self.body)["type"]).removeprefix("urn:semel:problem:")

    @property
    def replayed(self) -> bool:
        return self.fields.get("idempotent-replayed") == "true"


class Client:
    """Sends one request, and may go away."""

    def __init__(
        self, body: bytes = b"{}", method: str = "POST", path: str = "/orders", fields: Any = KEY, **more: Any
    ) -> None:
        given = {"content-type": "application/json", "content-length": str(len(body)), **fields}
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            **more,
        }
        self.body = [body]
        self.left = asyncio.Event()
        self.messages: list[dict[str, Any]] = []
        self.come = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.body:
            return {"type": "http.request", "body": self.body.pop(0), "more_body": bool(self.body)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self.come.set()

    async def ask(self, app: Any) -> Answer:
        await app(self.scope, self.receive, self.send)
        return Answer(self.messages)


async def answer(
    send: Any, status: int = 201, body: bytes = b'{"id":7}', fields: Any = ((b"content-type", b"application/json"),)
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(fields)})
    await send({"type": "http.response.body", "body": body})


class Counting:
    """An application that counts how often it was asked."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.count = 0
        self.handler = handler
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.count += 1
        if self.handler is not None:
            await self.handler(scope, receive, send)
            return
        message = await receive()
        self.bodies.append(message["body"])
        await answer(send)


def guarded(store: semel.Store, handler: Handler | None = None, **rules: Any) -> tuple[IdempotencyMiddleware, Counting]:
    app = Counting(handler)
    return IdempotencyMiddleware(app, store, **{"scope": semel.GLOBAL, **rules}), app


async def test_a_repeat_gets_the_first_answer(store: semel.Store) -> None:
    app, inner = guarded(store)
    first = await Client(b'{"a": 1, "b": 2}').ask(app)
    again = await Client(b'{"b": 2.0, "a": 1e0}').ask(app)
    assert (first.status, first.body, first.replayed) == (201, b'{"id":7}', False)
    assert (again.status, again.body, again.replayed) == (201, b'{"id":7}', True)
    assert again.fields["content-length"] == "8"
    assert (inner.count, inner.bodies) == (1, [b'{"a": 1, "b": 2}'])
    other = await Client(b'{"a": 2, "b": 2}').ask(app)
    assert (other.status, other.problem) == (422, "key-reused")
    assert json.loads(other.body)["fields"] == ["body.a"]


async def test_what_is_not_guarded_passes_untouched(store: semel.Store) -> None:
    app, inner = guarded(store, routes={"/search": None}, required=False)
    for client in (Client(method="GET"), Client(path="/search"), Client(fields={})):
        for _ in range(2):
            inner_before = inner.count
            client.body, client.messages = [b"{}"], []
            assert (await client.ask(app)).replayed is False
            assert inner.count == inner_before + 1
    seen = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    app.app = other
    for kind in ("lifespan", "websocket"):
        await app({"type": kind}, "receive", "send")  # type: ignore[arg-type]
    assert seen == [({"type": kind}, "receive", "send") for kind in ("lifespan", "websocket")]


async def test_whose_a_request_is(store: semel.Store) -> None:
    async def who(scope: Any) -> Any:
        return scope.get("user")

    for scope in (who, lambda scope: scope.get("user")):
        app, inner = guarded(store, scope=scope, operation="asked" if scope is who else "plain")
        nobody = await Client().ask(app)
        assert (nobody.status, nobody.problem, inner.count) == (400, "request-malformed", 0)
        for user in ("ann", "bob"):
            assert not (await Client(user=user).ask(app)).replayed
        assert (await Client(user="ann").ask(app)).replayed
        assert inner.count == 2
    for bad in (None, "ann", 7):
        with pytest.raises(semel.InvalidInput, match="scope"):
            IdempotencyMiddleware(inner, store, scope=bad)
    with pytest.raises(semel.InvalidInput, match="store"):
        IdempotencyMiddleware(inner, "memory:", scope=semel.GLOBAL)


@pytest.mark.parametrize(
    ("client", "status", "problem"),
    [
        ({"fields": {}}, 400, "key-missing"),
        ({"fields": {"idempotency-key": "a, b"}}, 400, "key-malformed"),
        ({"body": b"123456"}, 413, "body-too-large"),
        ({"body": b"1234", "fields": {**KEY, "content-length": "3"}}, 400, "request-malformed"),
    ],
)
async def test_refusals(store: semel.Store, client: Any, status: int, problem: str) -> None:
    app, inner = guarded(store, max_body_bytes=5)
    told = await Client(**client).ask(app)
    assert (told.status, told.problem, inner.count) == (status, problem, 0)


async def test_a_body_in_pieces_is_read_whole_or_refused(store: semel.Store) -> None:
    app, inner = guarded(store, max_body_bytes=5)
    client = Client(b"12345", fields={**KEY})
    client.body = [b"12", b"34", b"5"]
    assert (await client.ask(app)).status == 201
    assert inner.bodies == [b"12345"]
    client = Client(fields={"idempotency-key": "other"})
    client.scope["headers"] = client.scope["headers"][2:]
    client.body = [b"123", b"456", b"7"]
    assert (await client.ask(app)).problem == "body-too-large"
    assert client.body == [b"7"]


async def test_a_body_that_breaks_off_claims_nothing(store: semel.Store) -> None:
    app, inner = guarded(store)
    client = Client()
    client.body = []
    client.left.set()
    await app(client.scope, client.receive, client.send)
    assert (client.messages, inner.count, store.lookup("http", "k")) == ([], 0, None)


@pytest.mark.parametrize(
    ("status", "policy", "again"),
    [(429, "careful", 2), (402, "careful", 1), (500, "careful", 1), (500, "success-only", 2), (500, "stripe-v1", 1)],
)
async def test_statuses(store: semel.Store, status: int, policy: str, again: int) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, status)

    app, inner = guarded(store, handler, policy=policy)
    assert (await Client().ask(app)).status == status
    repeat = await Client().ask(app)
    assert inner.count == again
    if (status, policy) == (500, "careful"):
        assert (repeat.status, repeat.problem) == (409, "in-doubt")
    else:
        assert (repeat.status, repeat.replayed) == (status, again == 1)


@pytest.mark.parametrize(("ending", "again"), [("not_sent", 2), ("broken", 1), (503, 1)])
async def test_a_handler_may_know_more_than_its_status_tells(store: semel.Store, ending: Any, again: int) -> None:
    keys = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        running = scope["semel"]
        keys.append(running.derive_key("charge"))
        assert (running.attempt, running.takeover, running.lost) == (len(keys), False, False)
        assert running.fence
        assert semel.current().derive_key("charge") == keys[-1]  # type: ignore[union-attr]
        running.ending = ending
        await answer(send)

    app, inner = guarded(store, handler)
    assert (await Client().ask(app)).status == 201
    repeat = await Client().ask(app)
    assert inner.count == again
    assert len(set(keys)) == 1
    assert repeat.status == (201 if again == 2 else 409)


async def test_an_exception_leaves_a_doubt_and_is_raised(store: semel.Store) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        raise ConnectionError("the bank")

    app, inner = guarded(store, handler)
    client = Client()
    with pytest.raises(ConnectionError, match="the bank"):
        await client.ask(app)
    assert Answer(client.messages).problem == "broken-off"
    assert (await Client().ask(app)).problem == "in-doubt"
    assert inner.count == 1
    (record,) = store.unresolved()
    assert "ConnectionError" in str(record.doubt)


async def test_an_answer_without_an_end_leaves_a_doubt(store: semel.Store) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/half":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    app, _ = guarded(store, handler)
    for path in ("/half", "/nothing"):
        client = Client(path=path, fields={"idempotency-key": path})
        assert (await client.ask(app)).problem == "broken-off"
    assert len(store.unresolved()) == 2


async def test_a_client_that_goes_away_stops_nothing(store: semel.Store) -> None:
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        at_work.set()
        await go_on.wait()
        await answer(send)

    app, inner = guarded(store, handler)
    asking = asyncio.create_task(Client().ask(app))
    await at_work.wait()
    busy = await Client().ask(app)
    assert (busy.status, busy.problem) == (409, "in-flight")
    assert int(busy.fields["retry-after"]) >= 1
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert app.running == 1
    go_on.set()
    await app.idle()
    assert app.running == 0
    repeat = await Client().ask(app)
    assert (repeat.status, repeat.replayed, inner.count) == (201, True, 1)


async def test_a_repeat_may_wait_and_is_forgotten_when_it_goes_away(store: semel.Store) -> None:
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        at_work.set()
        await go_on.wait()
        await answer(send, 429 if inner.count == 1 else 201)

    app, inner = guarded(store, handler, wait=60)
    first = asyncio.create_task(Client().ask(app))
    await at_work.wait()
    gone, stays = Client(), Client()
    leaving = asyncio.create_task(app(gone.scope, gone.receive, gone.send))  # type: ignore[arg-type]
    gone.left.set()
    await leaving
    assert gone.messages == []
    waiting = asyncio.create_task(stays.ask(app))
    go_on.set()
    assert (await first).status == 429
    assert (await waiting).status == 201
    assert inner.count == 2


async def test_a_stream_goes_out_as_it_comes(store: semel.Store) -> None:
    go_on = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"2"})

    app, inner = guarded(store, handler)
    client = Client()
    asking = asyncio.create_task(client.ask(app))
    while len(client.messages) < 2:
        client.come.clear()
        await client.come.wait()
    assert client.messages[1]["body"] == b"1"
    assert (await Client().ask(app)).problem == "in-flight"
    go_on.set()
    assert (await asking).body == b"12"
    assert (await Client().ask(app)).problem == "answer-gone"
    assert inner.count == 1


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_long_answer_goes_out_and_is_recorded_without_it(store: semel.Store, leaves: bool) -> None:
    client = Client()

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(100):
            await send({"type": "http.response.body", "body": b"x" * 4, "more_body": True})
            if number == 50 and leaves:
                client.left.set()
        await send({"type": "http.response.body", "body": b"end"})

    app, inner = guarded(store, handler, max_kept_bytes=10)
    told = await client.ask(app)
    if not leaves:
        assert told.body == b"x" * 400 + b"end"
    await app.idle()
    assert (await Client().ask(app)).problem == "answer-gone"
    assert inner.count == 1


async def test_a_stream_that_breaks_off_leaves_a_doubt(store: semel.Store) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-accel-buffering", b"no")]})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        raise ConnectionError

    app, _ = guarded(store, handler)
    client = Client()
    with pytest.raises(ConnectionError):
        await client.ask(app)
    assert client.messages[-1].get("more_body")
    assert (await Client().ask(app)).problem == "in-doubt"


async def test_an_answer_that_cannot_be_recorded_is_not_shown(store: semel.Store) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        store.close()
        await answer(send)

    app, _ = guarded(store, handler)
    told = await Client().ask(app)
    assert (told.status, told.problem) == (503, "not-recorded")
    told = await Client().ask(app)
    assert (told.status, told.problem) == (503, "store-unavailable")


async def test_tokens(store: semel.Store) -> None:
    app, inner = guarded(store, token_route=("/token", "checkout", 300), tokens="checkout", scope=lambda scope: scope["user"])
    issued = await Client(path="/token", fields={}, user="ann").ask(app)
    token = json.loads(issued.body)["token"]
    assert (issued.status, issued.fields["cache-control"], inner.count) == (201, "no-store", 0)
    fields = {"idempotency-key": token}
    assert (await Client(fields=fields, user="bob").ask(app)).problem == "token-refused"
    assert (await Client(fields=fields, user="ann").ask(app)).status == 201
    assert (await Client(fields=fields, user="ann").ask(app)).replayed
    used = await Client(path="/other", fields=fields, user="ann").ask(app)
    assert (used.status, inner.count) == (422, 1)


async def test_other_origins(store: semel.Store) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None:
        await answer(send, fields=[(b"access-control-allow-origin", b"*")])

    app, _ = guarded(store, handler, cors=True)
    preflight = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    told = await Client(method="OPTIONS", fields=preflight).ask(app)
    assert told.fields["access-control-allow-headers"] == "idempotency-key"
    for _ in range(2):
        told = await Client().ask(app)
        assert told.fields["access-control-expose-headers"] == "idempotent-replayed, retry-after"


async def test_a_store_of_asyncio_serves_as_well() -> None:
    async with semel.aio.open("memory:") as store:
        app, inner = guarded(store)  # type: ignore[arg-type]
        assert not (await Client().ask(app)).replayed
        assert (await Client().ask(app)).replayed
        assert inner.count == 1


def test_under_starlette(store: semel.Store) -> None:
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.testclient import TestClient

    done = []

    async def create(request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse({"id": body["n"]}, 201, background=BackgroundTask(done.append, body["n"]))

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse((piece for piece in ("a", "b")), media_type="text/event-stream")

    async def fails(request: Request) -> JSONResponse:
        raise ValueError("no")

    app = Starlette(
        routes=[
            Mount("/api", routes=[Route("/orders", create, methods=["POST"])]),
            Route("/stream", stream, methods=["POST"]),
            Route("/fails", fails, methods=["POST"]),
        ],
        middleware=[Middleware(IdempotencyMiddleware, store, scope=semel.GLOBAL)],
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        for _ in range(2):
            assert client.post("/api/orders", json={"n": 1}, headers=KEY).json() == {"id": 1}
        assert done == [1]
        fields = {"idempotency-key": "s"}
        assert client.post("/stream", headers=fields).text == "ab"
        assert client.post("/stream", headers=fields).status_code == 410
        fields = {"idempotency-key": "f"}
        assert client.post("/fails", headers=fields).status_code == 500
        assert client.post("/fails", headers=fields).status_code == 409
    with TestClient(app) as client, pytest.raises(ValueError, match="no"):
        client.post("/fails", headers={"idempotency-key": "g"})


def test_under_fastapi(store: semel.Store) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    app = FastAPI()
    app.add_middleware(
        IdempotencyMiddleware, store=store, scope=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode() or None
    )
    keys = []

    @app.post("/orders", status_code=201)
    def create(order: Order) -> dict[str, int]:
        # In a thread of the framework's own: the ticket is there as well.
        keys.append(semel.current().derive_key("charge"))  # type: ignore[union-attr]
        return {"amount": order.amount}

    with TestClient(app) as client:
        for _ in range(2):
            told = client.post("/orders", json={"amount": 3}, headers={**KEY, "x-user": "ann"})
            assert (told.status_code, told.json()) == (201, {"amount": 3})
        assert told.headers["idempotent-replayed"] == "true"
        assert len(keys) == 1
        assert client.post("/orders", json={"amount": 3}, headers=KEY).status_code == 400
        invalid = {"idempotency-key": "i", "x-user": "ann"}
        assert client.post("/orders", json={"amount": "x"}, headers=invalid).status_code == 422


SERVED = """
import asyncio, os
import semel
from semel.asgi import IdempotencyMiddleware

store = semel.open(os.environ["SEMEL_TEST_STORE"])

async def inner(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = (await receive()).get("body", b"")
    with open(os.environ["SEMEL_TEST_STORE"] + ".log", "a") as log:
        log.write("x")
    if body == b"slow":
        await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})

app = IdempotencyMiddleware(inner, store, scope=semel.GLOBAL, wait=10)
"""


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """uvicorn with two workers."""
    (tmp_path / "served.py").write_text(SERVED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "served:app", "--port", str(port), "--workers", "2", "--log-level", "warning"]
    environ = {**os.environ, "SEMEL_TEST_STORE": str(tmp_path / "s")}
    process = subprocess.Popen(command, cwd=tmp_path, env=environ)
    try:
        yield f"http://127.0.0.1:{port}", tmp_path / "s.log"
    finally:
        process.terminate()
        process.wait(30)


async def test_under_uvicorn(server: tuple[str, pathlib.Path]) -> None:
    import httpx

    url, log = server
    transport = httpx.AsyncHTTPTransport(retries=8)
    async with httpx.AsyncClient(transport=transport, base_url=url, timeout=30) as client:
        told = await asyncio.gather(*(client.post("/", content=b"slow", headers=KEY) for _ in range(8)))
        assert {(answer.status_code, answer.text) for answer in told} == {(201, told[0].text)}
        assert sorted("idempotent-replayed" in answer.headers for answer in told) == [False] + [True] * 7
        assert log.read_text() == "x"
        # A client that gives up finds the answer when it asks again.
        fields = {"idempotency-key": "aborted"}
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/", content=b"slow", headers=fields, timeout=httpx.Timeout(30, read=0.1))
        told_again = await client.post("/", content=b"slow", headers=fields)
        assert (told_again.status_code, told_again.headers["idempotent-replayed"]) == (201, "true")
        assert log.read_text() == "xx"
