"""A middleware for WSGI applications: each guarded request takes effect once, and every repeat gets the first answer.

>>> import semel
>>> from semel.wsgi import IdempotencyMiddleware
>>> def app(environ, start_response):
...     start_response("201 Created", [("Content-Type", "text/plain")])
...     return [b"made"]
>>> store = semel.open("memory:")
>>> app = IdempotencyMiddleware(app, store, scope=lambda environ: environ.get("REMOTE_USER"))
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from . import _native, _work
from ._errors import Error
from ._http import PAUSES, READ_ON_SECONDS, RUNNING, Fields, Running, Settings, log, may_try_again, spelled

__all__ = ["IdempotencyMiddleware", "Running"]

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]

#: How much of a body is read at once, in bytes.
_READ_BYTES = 1 << 16


class IdempotencyMiddleware:
    """Makes each guarded request take effect once, and gives every repeat the first answer.

    ``scope`` is whose a request is: a function of the WSGI environ that gives the principal as it was verified, or ``None``,
    which is answered 400; or ``semel.GLOBAL``. Authentication stands before this middleware. Rules, ``routes``,
    ``token_route`` and ``cors`` are those of ``semel.asgi.IdempotencyMiddleware``.

    An answer is read to its end, and sent when it is recorded. A client that goes away does not stop the application.
    Raises InvalidInput for rules that cannot be kept.
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

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        fields = _fields(environ)
        method = environ["REQUEST_METHOD"]
        asked = self._settings.rules.ask(method, _path(environ), environ.get("QUERY_STRING", ""), fields)
        start_response = self._telling(method, fields, start_response)
        if asked.sort == "passes":
            return self.app(environ, start_response)
        return self._answer(asked, environ, start_response)

    def _telling(self, method: str, asked: Fields, start_response: Any) -> Any:
        """A ``start_response`` that tells other origins what they may know."""
        if not self._settings.cors:
            return start_response

        def told(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, _texts(self._settings.told(method, asked, _bytes(headers))), *more)

        return told

    def _answer(self, asked: _native.HttpAsked, environ: Environ, start_response: Any) -> Iterable[bytes]:
        store = self._settings.store
        if asked.sort == "refused":
            return _send(start_response, asked.refusal)
        who = self._settings.whose(environ)
        if who is None:
            return _send(start_response, asked.problem("without_scope"))
        if asked.sort == "token":
            return _send(start_response, asked.issue(store, who))
        if asked.refusal is not None:
            return _send(start_response, asked.refusal)
        body = _read(environ, asked.limit_bytes)
        if isinstance(body, str):
            return _send(start_response, asked.problem(body))
        if asked.binds:
            refused = asked.bind(store, who, body)
            if refused is not None:
                return _send(start_response, refused)
        environ = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        admitted = asked.admit(store, who, body)
        if isinstance(admitted, _native.Claim):
            return _Attempt(asked, admitted).answer(self.app, environ, start_response)
        if admitted is None:
            return self.app(environ, start_response)
        return _send(start_response, admitted)


def _fields(environ: Environ) -> Fields:
    fields = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    ]
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            fields.append((name.replace("_", "-").lower().encode(), environ[name].encode("latin-1")))
    return fields


def _path(environ: Environ) -> str:
    """The path as it came, where the server tells it; else as it can be spelled."""
    raw: str = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if raw.startswith("/"):
        return raw.split("?", 1)[0]
    return spelled(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), "latin-1")


def _read(environ: Environ, limit_bytes: int) -> bytes | str:
    """The whole body, or the word of a problem."""
    source = environ["wsgi.input"]
    declared = environ.get("CONTENT_LENGTH") or None
    if declared is None and not environ.get("wsgi.input_terminated"):
        return b""
    left = int(declared) if declared is not None else limit_bytes + 1
    pieces: list[bytes] = []
    try:
        while left > 0 and (piece := source.read(min(left, _READ_BYTES))):
            pieces.append(piece)
            left -= len(piece)
    except (OSError, EOFError) as error:
        log.info("the body of a request broke off: %s", error)
        return "cut_short"
    body = b"".join(pieces)
    return "too_large" if len(body) > limit_bytes else body


def _bytes(headers: Iterable[tuple[str, str]]) -> Fields:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _texts(fields: Fields) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").title(), value.decode("latin-1")) for name, value in fields]


def _line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Status {status}"


def _send(start_response: Any, answer: _native.HttpAnswer | None) -> list[bytes]:
    assert answer is not None
    start_response(_line(answer.status), _texts(answer.fields))
    return [answer.body]


class _Attempt:
    """A guarded request at work: what came of it is recorded before the client is told."""

    def __init__(self, asked: _native.HttpAsked, claim: _native.Claim) -> None:
        self.asked = asked
        self.claim = claim
        self.running = Running(claim)
        self.started: tuple[str, list[tuple[str, str]]] | None = None
        self.written: list[bytes] = []
        self.ended = False
        self.closed = False

    def _start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        if self.started is not None and exc_info is None:
            raise AssertionError("start_response was called twice without exc_info")
        self.started = (status, list(headers))
        return self.written.append

    def answer(self, app: App, environ: Environ, start_response: Any) -> Iterable[bytes]:
        inside = _work.running.set((*_work.running.get(), self.claim))
        iterable: Any = None
        try:
            iterable = app({**environ, RUNNING: self.running}, self._start_response)
            pieces = iter(iterable)
            first = self._until_started(pieces)
            answered = self._by_status(first, pieces, iterable, start_response)
            return self._whole(first, pieces, iterable, start_response) if answered is None else answered
        except Exception as error:
            if self.ended:
                raise
            log.exception("the application raised; the operation is in doubt under its key")
            self._doubt(f"the application raised {type(error).__name__}")
            if not self.closed:
                _close(iterable)
            return _send(start_response, self.asked.problem("broken_off"))
        except BaseException:
            if not self.ended:
                self.ended = True
                _native.abandon(self.claim)
            raise
        finally:
            _work.running.reset(inside)

    def _until_started(self, pieces: Iterator[bytes]) -> list[bytes]:
        """What was read when the status is known."""
        first: list[bytes] = []
        while self.started is None:
            piece = next(pieces, None)
            if piece is None:
                break
            first.append(piece)
        first[:0] = self.written
        self.written.clear()
        if self.started is None:
            raise RuntimeError("the application ended without start_response")
        return first

    def _status(self) -> int:
        assert self.started is not None
        return int(self.started[0].split(None, 1)[0])

    def _by_status(
        self, first: list[bytes], pieces: Iterator[bytes], iterable: Any, start_response: Any
    ) -> Iterable[bytes] | None:
        """The answer as it comes, when it is not held back; else None."""
        assert self.started is not None
        status, headers = self.started
        verdict = self.running.verdict(self.asked, self._status())
        if verdict == "keep":
            if self.asked.holds(_bytes(headers)):
                return None
            start_response(status, headers)
            return _Stream(self, first, pieces, iterable)
        if verdict == "release":
            self._record(self.claim.release)
        else:
            self._doubt(self.running.why(self._status()))
        self.ended = True
        start_response(status, headers)
        return _Stream(self, first, pieces, iterable)

    def _whole(self, held: list[bytes], pieces: Iterator[bytes], iterable: Any, start_response: Any) -> Iterable[bytes]:
        length, limit_bytes = sum(map(len, held)), self.asked.kept_limit_bytes
        while length <= limit_bytes:
            piece = next(pieces, None)
            held += self.written
            length += sum(map(len, self.written))
            self.written.clear()
            if piece is None:
                return self._kept(b"".join(held), iterable, start_response)
            held.append(piece)
            length += len(piece)
        assert self.started is not None
        start_response(*self.started)
        return _Stream(self, held, pieces, iterable)

    def _kept(self, body: bytes, iterable: Any, start_response: Any) -> Iterable[bytes]:
        assert self.started is not None
        self.closed = True
        _close(iterable)
        # What the application says last, with exc_info, is its answer.
        status, headers = self.started
        number, fields = self._status(), _bytes(headers)
        self.ended = True
        if not self._record(lambda: self.asked.keep(self.claim, number, fields, body)):
            return _send(start_response, self.asked.problem("not_recorded"))
        start_response(status, headers)
        return [body]

    def _doubt(self, why: str) -> None:
        self.ended = True
        self._record(lambda: self.claim.doubt(why))

    def _record(self, end: Callable[[], None]) -> bool:
        """Whether it is recorded; if not, recording is tried again while the ticket goes on being renewed."""
        try:
            end()
        except Error as error:
            log.warning("what came of %s could not be recorded: %s", self.claim.key[1], error)
            if may_try_again(error):
                threading.Thread(target=_insist, args=(end,), name="semel-insist", daemon=True).start()
            return False
        return True


class _Stream:
    """An answer that goes out as it comes, and its end when that is recorded."""

    def __init__(self, attempt: _Attempt, first: list[bytes], pieces: Iterator[bytes], iterable: Any) -> None:
        self.attempt = attempt
        self.first = first
        self.pieces = pieces
        self.iterable = iterable
        self.over = False

    def __iter__(self) -> _Stream:
        return self

    def __next__(self) -> bytes:
        if not self.first:
            self.first = self._more()
        if not self.first:
            self._end()
            raise StopIteration
        return self.first.pop(0)

    def _more(self) -> list[bytes]:
        """What comes next; nothing at the end."""
        attempt = self.attempt
        if self.over:
            return []
        inside = _work.running.set((*_work.running.get(), attempt.claim))
        try:
            piece = next(self.pieces, None)
        except BaseException as error:
            self.over = True
            if not attempt.ended:
                attempt._doubt(f"its answer broke off: {type(error).__name__}")
            raise
        finally:
            _work.running.reset(inside)
        more = [*attempt.written, *([] if piece is None else [piece])]
        attempt.written.clear()
        self.over = not more
        return more

    def _end(self) -> None:
        if self.attempt.ended:
            return
        self.attempt.ended = True
        if not self.attempt._record(self.attempt.claim.complete_without_result):
            raise Error("the answer could not be recorded; its end is not sent")

    def close(self) -> None:
        """Reads on to the end when the client has gone, so that the application can finish."""
        try:
            if not self.over and not self.attempt.ended:
                self._read_on()
        finally:
            _close(self.iterable)

    def _read_on(self) -> None:
        until = time.monotonic() + READ_ON_SECONDS
        try:
            for _ in self:
                if time.monotonic() > until:
                    self.attempt._doubt("it had no end, and its client had gone")
                    return
        except Exception:
            log.exception("the answer broke off after its client had gone")


def _close(iterable: Any) -> None:
    close = getattr(iterable, "close", None)
    if close is not None:
        close()


def _insist(end: Callable[[], None]) -> None:
    """Tries again what could not be recorded. If it never can be, the ticket is dropped, which leaves a doubt."""
    for pause in PAUSES:
        time.sleep(pause)
        try:
            end()
        except Error as error:
            if not may_try_again(error):
                return
        else:
            return
