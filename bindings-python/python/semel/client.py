"""For callers of HTTP: one key for each call, kept over all its retries, and never used for two.

``IdempotencyTransport`` and ``AsyncIdempotencyTransport`` for httpx, ``IdempotencyAdapter`` for requests. Each needs its library.

    client = httpx.Client(transport=semel.client.IdempotencyTransport())
    session.mount("https://", semel.client.IdempotencyAdapter())

A request of a guarded method gets a key of its own, or keeps the one that it has: give it one when your operation has a number
(``headers={"Idempotency-Key": order_no}``), which then holds over restarts as well. It is sent again when the connection broke,
and when the answer says that it should be: the same request is under way (409), or the service cannot serve now (429, 502, 503,
504), after ``Retry-After``. It is never sent again when that is of no use; then it raises: ``semel.Mismatch`` (422, the key
belongs to another request), ``semel.Gone`` (410, executed, and the answer is no longer kept), ``semel.InDoubt`` (409, nobody
knows whether it took effect), and ``semel.Busy`` when it is still under way at the end. Every other answer is returned.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ._errors import Busy, Error, Gone, InDoubt, InvalidInput, Mismatch

if TYPE_CHECKING:
    import httpx
    import requests

__all__ = ["AsyncIdempotencyTransport", "IdempotencyAdapter", "IdempotencyTransport"]

_PROBLEM = "urn:semel:problem:"
#: Answers after which the same request may be sent again: nothing is kept of them.
_LATER = (429, 502, 503, 504)
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


class _Policy:
    """When a request is sent again."""

    def __init__(self, attempts: int, longest: float, field: str, methods: Iterable[str]) -> None:
        if attempts < 1:
            raise InvalidInput(f"attempts is {attempts}; give at least 1")
        self.attempts = attempts
        self.longest = longest
        self.field = field
        self.methods = frozenset(methods)

    def key(self, method: str, fields: Any) -> str | None:
        """The key of a request, made if it has none; None for one that is not guarded."""
        if method.upper() not in self.methods:
            return None
        if self.field not in fields:
            fields[self.field] = str(uuid.uuid4())
        key: str = fields[self.field]
        return key

    def pause(self, attempt: int, asked: str | None = None) -> float:
        """How long to wait before the next attempt, in seconds. Who asks for too long is not waited for: -1."""
        told = _seconds(asked)
        if told is not None:
            return told if told <= self.longest else -1.0
        return min(_LONGEST_PAUSE_SECONDS, self.longest, _FIRST_PAUSE_SECONDS * 2.0**attempt) * random.uniform(0.5, 1)

    def judge(self, key: str, attempt: int, status: int, fields: Any, body: bytes) -> float | None:
        """The pause before the next attempt; None when the answer is to be returned."""
        problem = _problem(fields, body) if status in (409, 410, 422, *_LATER, 500) else {}
        kind = str(problem.get("type", "")).removeprefix(_PROBLEM)
        error = _error(kind, key, problem)
        if error is not None:
            raise error
        asked = fields.get("retry-after")
        last = attempt + 1 >= self.attempts
        if kind == "in-flight":
            pause = -1.0 if last else self.pause(attempt, asked)
            if pause < 0:
                raise Busy(f"{key!r} is still under way: {_detail(problem)}", retry_after=_seconds(asked))
            return pause
        if status not in _LATER or last:
            return None
        pause = self.pause(attempt, asked)
        return None if pause < 0 else pause


def _detail(problem: dict[str, Any]) -> str:
    return str(problem.get("detail", "the service says no more"))


def _error(kind: str, key: str, problem: dict[str, Any]) -> Error | None:
    facts = {"key": (None, "http", key)}
    if kind == "key-reused":
        fields = tuple(problem.get("fields", ()))
        return Mismatch(f"the key {key!r} belongs to another request: {_detail(problem)}", fields=fields, **facts)
    if kind == "answer-gone":
        return Gone(f"{key!r} was executed, and its answer is no longer kept: {_detail(problem)}", **facts)
    if kind in ("in-doubt", "broken-off", "upstream-broken", "upstream-timeout"):
        return InDoubt(f"nobody knows whether {key!r} took effect: {_detail(problem)}", doubt=_detail(problem), **facts)
    return None


def _problem(fields: Any, body: bytes) -> dict[str, Any]:
    if not str(fields.get("content-type", "")).startswith("application/problem+json"):
        return {}
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _seconds(asked: str | None) -> float | None:
    """What ``Retry-After`` says: seconds, or a date."""
    if asked is None:
        return None
    try:
        return max(0.0, float(int(asked.strip())))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except ValueError:
        return None


try:
    import httpx as _httpx
except ImportError:
    _httpx = None  # type: ignore[assignment]

try:
    import requests.adapters as _adapters
    import requests.exceptions as _failures
except ImportError:
    _adapters = None  # type: ignore[assignment]


def _needs(library: str) -> Any:
    def refused(*_: Any, **__: Any) -> Any:
        raise ImportError(f"this part of semel.client needs {library}: pip install {library}")

    return refused


if _httpx is not None:

    class IdempotencyTransport(_httpx.BaseTransport):
        """A transport of httpx that keeps one key over all attempts of one call.

        ``transport`` is what sends, a new one by default; ``attempts`` how often at most, the first one counted in;
        ``longest_pause`` the seconds beyond which a ``Retry-After`` is not waited for, ``field`` the name of the field of the
        key, ``methods`` those that are guarded. ``sleep`` is how to wait.
        """

        def __init__(
            self,
            transport: httpx.BaseTransport | None = None,
            *,
            attempts: int = 4,
            longest_pause: float = 60.0,
            field: str = "Idempotency-Key",
            methods: Iterable[str] = ("POST", "PATCH"),
            sleep: Callable[[float], object] = time.sleep,
        ) -> None:
            self._inner = transport or _httpx.HTTPTransport()
            self._policy = _Policy(attempts, longest_pause, field, methods)
            self._sleep = sleep

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            """Sends a request, and sends it again where that is of use."""
            key = self._policy.key(request.method, request.headers)
            if key is None:
                return self._inner.handle_request(request)
            # What is sent again has to be there again.
            request.read()
            for attempt in range(self._policy.attempts):
                try:
                    response = self._inner.handle_request(request)
                except _httpx.TransportError:
                    if attempt + 1 >= self._policy.attempts:
                        raise
                    self._sleep(self._policy.pause(attempt))
                    continue
                try:
                    content = response.read() if "problem+json" in response.headers.get("content-type", "") else b""
                    pause = self._policy.judge(key, attempt, response.status_code, response.headers, content)
                except BaseException:
                    response.close()
                    raise
                if pause is None:
                    return response
                response.close()
                self._sleep(pause)
            raise AssertionError("the last attempt returns or raises")

        def close(self) -> None:
            """Closes what sends."""
            self._inner.close()

    class AsyncIdempotencyTransport(_httpx.AsyncBaseTransport):
        """A transport of httpx's AsyncClient that keeps one key over all attempts of one call.

        ``transport`` is what sends, a new one by default; ``attempts`` how often at most, the first one counted in;
        ``longest_pause`` the seconds beyond which a ``Retry-After`` is not waited for, ``field`` the name of the field of the
        key, ``methods`` those that are guarded. ``sleep`` is how to wait.
        """

        def __init__(
            self,
            transport: httpx.AsyncBaseTransport | None = None,
            *,
            attempts: int = 4,
            longest_pause: float = 60.0,
            field: str = "Idempotency-Key",
            methods: Iterable[str] = ("POST", "PATCH"),
            sleep: Callable[[float], Any] = asyncio.sleep,
        ) -> None:
            self._inner = transport or _httpx.AsyncHTTPTransport()
            self._policy = _Policy(attempts, longest_pause, field, methods)
            self._sleep = sleep

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            """Sends a request, and sends it again where that is of use."""
            key = self._policy.key(request.method, request.headers)
            if key is None:
                return await self._inner.handle_async_request(request)
            await request.aread()
            for attempt in range(self._policy.attempts):
                try:
                    response = await self._inner.handle_async_request(request)
                except _httpx.TransportError:
                    if attempt + 1 >= self._policy.attempts:
                        raise
                    await self._sleep(self._policy.pause(attempt))
                    continue
                try:
                    content = await response.aread() if "problem+json" in response.headers.get("content-type", "") else b""
                    pause = self._policy.judge(key, attempt, response.status_code, response.headers, content)
                except BaseException:
                    await response.aclose()
                    raise
                if pause is None:
                    return response
                await response.aclose()
                await self._sleep(pause)
            raise AssertionError("the last attempt returns or raises")

        async def aclose(self) -> None:
            """Closes what sends."""
            await self._inner.aclose()

else:
    IdempotencyTransport = _needs("httpx")  # type: ignore[misc]
    AsyncIdempotencyTransport = _needs("httpx")  # type: ignore[misc]


if _adapters is not None:

    class IdempotencyAdapter(_adapters.HTTPAdapter):
        """An adapter of requests that keeps one key over all attempts of one call.

        ``attempts`` is how often to send at most, the first one counted in; ``longest_pause`` the seconds beyond which a
        ``Retry-After`` is not waited for, ``field`` the name of the field of the key, ``methods`` those that are guarded.
        ``sleep`` is how to wait. Further arguments are those of ``requests.adapters.HTTPAdapter``, whose own retries stay off.
        """

        def __init__(
            self,
            *args: Any,
            attempts: int = 4,
            longest_pause: float = 60.0,
            field: str = "Idempotency-Key",
            methods: Iterable[str] = ("POST", "PATCH"),
            sleep: Callable[[float], object] = time.sleep,
            **more: Any,
        ) -> None:
            super().__init__(*args, **more)
            self._policy = _Policy(attempts, longest_pause, field, methods)
            self._sleep = sleep

        def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> requests.Response:
            """Sends a request, and sends it again where that is of use."""
            key = self._policy.key(request.method or "", request.headers)
            if key is None:
                return super().send(request, *args, **more)
            if request.body is not None and not isinstance(request.body, (bytes, str)):
                # What is sent again has to be there again.
                body: Any = request.body
                request.body = body.read() if hasattr(body, "read") else b"".join(body)
                request.headers.pop("Transfer-Encoding", None)
                request.prepare_content_length(request.body)
            for attempt in range(self._policy.attempts):
                try:
                    response = super().send(request, *args, **more)
                except (_failures.ConnectionError, _failures.Timeout, _failures.ChunkedEncodingError):
                    if attempt + 1 >= self._policy.attempts:
                        raise
                    self._sleep(self._policy.pause(attempt))
                    continue
                try:
                    content = response.content if "problem+json" in response.headers.get("content-type", "") else b""
                    pause = self._policy.judge(key, attempt, response.status_code, response.headers, content)
                except BaseException:
                    response.close()
                    raise
                if pause is None:
                    return response
                response.close()
                self._sleep(pause)
            raise AssertionError("the last attempt returns or raises")

else:
    IdempotencyAdapter = _needs("requests")  # type: ignore[misc]
