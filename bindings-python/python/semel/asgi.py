"""A middleware for ASGI applications: each guarded request takes effect once, and every repeat gets the first answer.

>>> import semel
>>> from semel.asgi import IdempotencyMiddleware
>>> async def app(scope, receive, send):
...     await send({"type": "http.response.start", "status": 201, "headers": []})
...     await send({"type": "http.response.body", "body": b"made"})
>>> store = semel.open("memory:")
>>> app = IdempotencyMiddleware(app, store, scope=lambda request: request.get("user"))
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from . import _native, _work, aio
from ._errors import Error
from ._http import PAUSES, READ_ON_SECONDS, RUNNING, Fields, Running, Settings, log, may_try_again, spelled

__all__ = ["IdempotencyMiddleware", "Running"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: How many messages may be on their way to a client that reads slowly.
MAX_PIECES = 16

#: What would send an answer past the middleware.
_BYPASSES = ("http.response.pathsend", "http.response.trailers", "http.response.zerocopysend")


class AnswerBroken(Error):
    """An answer that was on its way to the client has no end: it broke off, or its end could not be recorded."""


class IdempotencyMiddleware:
    """Makes each guarded request take effect once, and gives every repeat the first answer.

    ``scope`` is whose a request is: a function of the ASGI scope, plain or async, that gives the principal as it was verified,
    or ``None``, which is answered 400; or ``semel.GLOBAL``. Authentication stands before this middleware.

    Rules for all requests: ``operation`` ("http"), ``methods`` (POST, PATCH), ``key`` ("header:Idempotency-Key", "json:.path"),
    ``required`` (True), ``query`` ("all", "ignore" or a list of names), ``policy`` ("careful", "success-only", "stripe-v1"),
    ``keep_fields``, ``max_body_bytes``, ``max_kept_bytes``, ``tokens`` (a purpose), ``lease``, ``retain``, ``remember``,
    ``wait``, ``in_doubt``. ``routes`` has rules over these by pattern, or ``None`` to let a request pass; the first that
    matches decides. ``token_route`` is ``(path, purpose, ttl)``, or a list of them. ``cors=True`` adds the names of the fields
    to what the application tells other origins.

    The application runs in a task of its own: a client that goes away does not stop it, and finds the answer when it asks
    again. ``await idle()`` waits for such tasks before the store is closed. Raises InvalidInput for rules that cannot be kept.
    """

    def __init__(
        self,
        app: App,
        store: Any,
        *,
        scope: Any = None,
        routes: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        token_route: Any = None,
        cors: bool = False,
        **rules: Any,
    ) -> None:
        self.app = app
        self._settings = Settings(store, scope, rules, routes, token_route, cors)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many requests are being answered, among them those whose clients have gone."""
        return len(self._tasks)

    async def idle(self) -> None:
        """Waits until no request is being answered, among them those whose clients have gone."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        fields = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
        query = scope.get("query_string", b"").decode("latin-1")
        asked = self._settings.rules.ask(scope["method"], _path(scope), query, fields)
        send = self._telling(scope["method"], fields, send)
        if asked.sort == "passes":
            await self.app(scope, receive, send)
            return
        with contextlib.suppress(_Gone):
            await self._answer(asked, scope, receive, send)

    def _telling(self, method: str, asked: Fields, send: Send) -> Send:
        """A ``send`` that tells other origins what they may know."""
        if not self._settings.cors:
            return send

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
                message = {**message, "headers": self._settings.told(method, asked, answered)}
            await send(message)

        return told

    async def _answer(self, asked: _native.HttpAsked, scope: Scope, receive: Receive, send: Send) -> None:
        store = self._settings.store
        if asked.sort == "refused":
            await _send(send, asked.refusal)
            return
        who = self._settings.whose(scope)
        if inspect.isawaitable(who):
            who = await who
        if who is None:
            await _send(send, asked.problem("without_scope"))
            return
        if asked.sort == "token":
            await _send(send, await asyncio.to_thread(asked.issue, store, who))
            return
        if asked.refusal is not None:
            await _send(send, asked.refusal)
            return
        body = await _read(receive, asked.limit_bytes)
        if body is None:
            await _send(send, asked.problem("too_large"))
            return
        if asked.binds:
            refused = await asyncio.to_thread(asked.bind, store, who, body)
            if refused is not None:
                await _send(send, refused)
                return
        number, within = _native.task_number(), aio._within.get()
        admitted = await _unless_gone(_native.begin_admit(asked, store, who, body, number, list(within)), receive)
        if isinstance(admitted, _native.Claim):
            await self._execute(_Attempt(self, asked, admitted, (*within, number), body), scope, receive, send)
        elif admitted is None:
            await self.app(scope, _again(body, receive), send)
        else:
            await _send(send, admitted)

    async def _execute(self, attempt: _Attempt, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.create_task(attempt.run(self.app, scope))
        self._keep(task)
        await attempt.hand_on(task, receive, send)

    def _keep(self, task: asyncio.Task[None]) -> None:
        # A loop holds its tasks weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Gone(Exception):
    """The client went away before anything was claimed."""


def _path(scope: Scope) -> str:
    raw = scope.get("raw_path")
    if raw is None:
        return spelled(scope["path"])
    path: str = raw.split(b"?", 1)[0].decode("latin-1")
    return path


async def _read(receive: Receive, limit_bytes: int) -> bytes | None:
    """The whole body; None when it is too long. Raises _Gone when it breaks off: nobody is left to be answered."""
    pieces, length = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        piece = message.get("body", b"")
        pieces.append(piece)
        length += len(piece)
        if length > limit_bytes:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _unless_gone(op: _native.Op, receive: Receive) -> Any:
    """What a claim comes to; one that has to wait is given up when its client goes away."""
    claiming = asyncio.ensure_future(aio._finish(op))
    leaving: asyncio.Future[None] | None = None
    try:
        await asyncio.sleep(0)
        if not claiming.done():
            leaving = asyncio.ensure_future(_left(receive))
            await asyncio.wait((claiming, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not claiming.done():
            raise _Gone
        return claiming.result()
    except BaseException:
        await _cancelled(claiming)
        if not claiming.cancelled() and claiming.exception() is None:
            claimed = claiming.result()
            if isinstance(claimed, _native.Claim):
                _native.give_back(claimed)
        raise
    finally:
        if leaving is not None:
            await _cancelled(leaving)


async def _cancelled(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives a body that was read, and then what comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _send(send: Send, answer: _native.HttpAnswer | None) -> None:
    assert answer is not None
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.fields})
    await send({"type": "http.response.body", "body": answer.body})


class _Attempt:
    """A guarded request at work: what came of it is recorded before the client is told."""

    def __init__(
        self,
        middleware: IdempotencyMiddleware,
        asked: _native.HttpAsked,
        claim: _native.Claim,
        within: tuple[int, ...],
        body: bytes,
    ) -> None:
        self.middleware = middleware
        self.asked = asked
        self.claim = claim
        self.running = Running(claim)
        self.within = within
        self.pieces: asyncio.Queue[Message | None] = asyncio.Queue(MAX_PIECES)
        self.body: bytes | None = body
        self.answered = asyncio.Event()
        self.gone = False
        self.ended = False
        self.start: Message | None = None
        self.held: list[bytes] | None = None
        self.length = 0
        #: The task of the application, when its client has gone.
        self.task: asyncio.Task[None] | None = None

    # In the task of the server.

    async def hand_on(self, task: asyncio.Task[None], receive: Receive, send: Send) -> None:
        """Sends what the client is to be told. Cancelling this stops nothing."""
        watching: asyncio.Task[None] | None = None
        try:
            while (message := await self.pieces.get()) is not None:
                await send(message)
                if watching is None and message.get("more_body", False):
                    watching = asyncio.create_task(self._watch(task, receive))
            if not self.gone:
                await asyncio.shield(task)
        except BaseException:
            self._leave(task)
            raise
        finally:
            if watching is not None:
                await _cancelled(watching)

    async def _watch(self, task: asyncio.Task[None], receive: Receive) -> None:
        await _left(receive)
        self._leave(task)

    def _leave(self, task: asyncio.Task[None]) -> None:
        """The client has gone: nothing is handed on any more, and the application may go on for a while."""
        if self.gone:
            return
        self.gone = True
        if not task.done():
            # A task whose exception nobody waits for any more.
            task.add_done_callback(_tell)
            self.task = task
            if self._streams():
                self._limit()
        while not self.pieces.empty():
            self.pieces.get_nowait()
        self.pieces.put_nowait(None)

    def _streams(self) -> bool:
        """Whether the answer goes out as it comes, and its end is to be recorded."""
        return self.start is not None and self.held is None and not self.ended

    def _limit(self) -> None:
        """An answer that nobody reads has to end some time."""
        task = self.task
        if task is not None and not task.done():
            timer = asyncio.get_running_loop().call_later(READ_ON_SECONDS, task.cancel)
            task.add_done_callback(lambda _: timer.cancel())

    # In the task of the application.

    async def run(self, app: App, scope: Scope) -> None:
        ticket: Any = aio.Claim(self.claim)
        _work.running.set((*_work.running.get(), ticket))
        aio._within.set(self.within)
        inner = {**scope, RUNNING: self.running}
        if "extensions" in scope:
            extensions = scope["extensions"] or {}
            inner["extensions"] = {name: value for name, value in extensions.items() if name not in _BYPASSES}
        try:
            await app(inner, self._receive, self._send)
            if not self.ended:
                await self._broke("its answer has no end", None)
        except Exception as error:
            if not self.ended:
                await self._broke(f"the application raised {type(error).__name__}", error)
            raise
        except BaseException:
            if not self.ended:
                self.ended = True
                why = "it had no end, and its client had gone" if self.gone else None
                _leave_in_doubt(self.claim, why)
                self._offer(self._broken_off())
            raise
        finally:
            self.answered.set()
            await self._put(None)

    async def _receive(self) -> Message:
        body, self.body = self.body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        # That the client goes away is nothing to the application: its answer is kept.
        await self.answered.wait()
        return {"type": "http.disconnect"}

    async def _put(self, message: Message | None) -> None:
        if not self.gone:
            await self.pieces.put(message)

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            await self._begin(message)
        elif kind == "http.response.body" and self.start is not None and not self.ended:
            await self._piece(bytes(message.get("body", b"")), bool(message.get("more_body", False)))
        else:
            await self._put(message)
        if kind == "http.response.body" and not message.get("more_body", False):
            self.answered.set()

    async def _begin(self, message: Message) -> None:
        self.start = message
        status = message["status"]
        verdict = self.running.verdict(self.asked, status)
        if verdict == "keep":
            self.held = [] if self.asked.holds(self._fields()) else None
            if self.held is None:
                self._limit()
                await self._put(message)
            return
        self.ended = True
        if verdict == "release":
            await self._record(lambda: _native.begin_release(self.claim))
        else:
            await self._record(lambda: _native.begin_doubt(self.claim, self.running.why(status)))
        await self._put(message)

    def _fields(self) -> Fields:
        assert self.start is not None
        return [(bytes(name).lower(), bytes(value)) for name, value in self.start.get("headers", ())]

    async def _piece(self, body: bytes, more: bool) -> None:
        if self.held is not None:
            self.held.append(body)
            self.length += len(body)
            if self.length <= self.asked.kept_limit_bytes:
                if not more:
                    await self._whole()
                return
            body, self.held = b"".join(self.held), None
            self._limit()
            await self._put(self.start)
        if more:
            await self._put({"type": "http.response.body", "body": body, "more_body": True})
            return
        if body:
            await self._put({"type": "http.response.body", "body": body, "more_body": True})
        self.ended = True
        if not await self._record(lambda: _native.begin_complete_without_result(self.claim)):
            raise AnswerBroken("the answer could not be recorded")
        await self._put({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self) -> None:
        assert self.start is not None
        assert self.held is not None
        body, status, fields = b"".join(self.held), self.start["status"], self._fields()
        self.ended = True
        if await self._record(lambda: _native.begin_keep(self.asked, self.claim, status, fields, body)):
            await self._put(self.start)
            await self._put({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self._answer(self.asked.problem("not_recorded"))

    async def _broke(self, why: str, error: Exception | None) -> None:
        self.ended = True
        await self._record(lambda: _native.begin_doubt(self.claim, why))
        if self.start is None or self.held is not None:
            if error is None:
                log.error("the application gave no whole answer; the operation is in doubt under its key")
            await self._answer(self.asked.problem("broken_off"))
        elif error is None:
            raise AnswerBroken("the answer broke off")

    def _broken_off(self) -> list[Message]:
        if self.start is not None and self.held is None:
            return []
        answer = self.asked.problem("broken_off")
        return [
            {"type": "http.response.start", "status": answer.status, "headers": answer.fields},
            {"type": "http.response.body", "body": answer.body},
        ]

    def _offer(self, messages: list[Message]) -> None:
        """Hands messages on without waiting: the loop ends."""
        if not self.gone:
            for message in messages:
                if not self.pieces.full():
                    self.pieces.put_nowait(message)

    async def _answer(self, answer: _native.HttpAnswer) -> None:
        await self._put({"type": "http.response.start", "status": answer.status, "headers": answer.fields})
        await self._put({"type": "http.response.body", "body": answer.body})

    async def _record(self, begin: Callable[[], _native.Op]) -> bool:
        """Whether it is recorded; if not, recording is tried again while the ticket goes on being renewed."""
        try:
            await aio._finish(begin())
        except Error as error:
            log.warning("what came of %s could not be recorded: %s", self.claim.key[1], error)
            if may_try_again(error):
                self.middleware._keep(asyncio.create_task(_insist(begin)))
            return False
        return True


async def _insist(begin: Callable[[], _native.Op]) -> None:
    """Tries again what could not be recorded. If it never can be, the ticket is dropped, which leaves a doubt."""
    for pause in PAUSES:
        await asyncio.sleep(pause)
        try:
            await aio._finish(begin())
        except Error as error:
            if not may_try_again(error):
                return
        else:
            return


def _leave_in_doubt(claim: _native.Claim, why: str | None) -> None:
    """Leaves word at once: nothing may be waited for any more."""
    if why is None:
        _native.abandon(claim)
        return
    try:
        claim.doubt(why)
    except Error as error:
        log.warning("what came of %s could not be recorded: %s", claim.key[1], error)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the application raised after its client had gone", exc_info=error)
