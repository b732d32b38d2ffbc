"""Requests of Django that take effect once: all of them by a middleware, or those of one view."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, StreamingHttpResponse, UnreadablePostError

from .. import _native, _work
from .._errors import InvalidInput
from .._http import Settings, log
from ..wsgi import _Attempt, _bytes, _fields, _path, _Stream, _texts
from ._settings import made

View = Callable[..., Any]

#: Where a request that is guarded has its `Running`.
_GUARDED = "semel"


class IdempotencyMiddleware:
    """Makes each guarded request take effect once, and gives every repeat the first answer. See ``semel.django``.

    It stands behind the middleware that finds out who asks. Views find the attempt as ``request.semel``.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response
        self._settings = made()

    def __call__(self, request: Any) -> Any:
        return _answer(self._settings, request, self.get_response)

    def process_exception(self, request: Any, error: Exception) -> None:
        """Says of an exception that the effect is unknown, whatever answer Django makes of it."""
        running = getattr(request, _GUARDED, None)
        if running is not None and running.ending is None:
            running.ending = "broken"


def idempotent(**rules: Any) -> Callable[[View], View]:
    """Guards one view: rules over those of ``settings.SEMEL["RULES"]``, and ``scope``.

        @idempotent(operation="pay", wait="5s")
        def pay(request): ...

    For views that are plain functions, or ``method_decorator``. Not together with the middleware over the same request, which
    then has answered already. Raises InvalidInput for an ``async def`` view.
    """

    def decorate(view: View) -> View:
        if inspect.iscoroutinefunction(view):
            raise InvalidInput("the view is async; guard it by semel.asgi.IdempotencyMiddleware around the application")
        settings: list[Settings] = []

        @functools.wraps(view)
        def guarded(request: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(request, _GUARDED, None) is not None:
                return view(request, *args, **kwargs)
            if not settings:
                # The settings of Django are there when the first request comes.
                settings.append(made(dict(rules)))
            return _answer(settings[0], request, lambda request: view(request, *args, **kwargs))

        return guarded

    return decorate


def _answer(settings: Settings, request: Any, get_response: View) -> Any:
    fields = _fields(request.META)
    query = request.META.get("QUERY_STRING", "")
    asked = settings.rules.ask(request.method, _path({"PATH_INFO": request.path, **_raw(request)}), query, fields)
    response = get_response(request) if asked.sort == "passes" else _guarded(settings, asked, request, get_response)
    if settings.cors:
        answered = _bytes(response.items())
        for name, value in _texts(settings.told(request.method, fields, answered)[len(answered) :]):
            listed = f"{response[name]}, {value}" if name in response else value
            response[name] = listed
    return response


def _raw(request: Any) -> dict[str, Any]:
    return {name: request.META[name] for name in ("RAW_URI", "REQUEST_URI") if name in request.META}


def _guarded(settings: Settings, asked: _native.HttpAsked, request: Any, get_response: View) -> Any:
    store = settings.store
    if asked.sort == "refused":
        return _of(asked.refusal)
    who = settings.whose(request)
    if who is None:
        return _of(asked.problem("without_scope"))
    if asked.sort == "token":
        return _of(asked.issue(store, who))
    if asked.refusal is not None:
        return _of(asked.refusal)
    try:
        body = request.body
    except RequestDataTooBig:
        return _of(asked.problem("too_large"))
    except UnreadablePostError:
        return _of(asked.problem("cut_short"))
    if len(body) > asked.limit_bytes:
        return _of(asked.problem("too_large"))
    if asked.binds and (refused := asked.bind(store, who, body)) is not None:
        return _of(refused)
    admitted = asked.admit(store, who, body)
    if isinstance(admitted, _native.Claim):
        return _execute(_Attempt(asked, admitted), request, get_response)
    return get_response(request) if admitted is None else _of(admitted)


def _of(answer: _native.HttpAnswer | None) -> HttpResponse:
    assert answer is not None
    response = HttpResponse(answer.body, status=answer.status)
    del response["Content-Type"]
    for name, value in _texts(answer.fields):
        response[name] = f"{response[name]}, {value}" if name in response else value
    return response


def _execute(attempt: _Attempt, request: Any, get_response: View) -> Any:
    setattr(request, _GUARDED, attempt.running)
    inside = _work.running.set((*_work.running.get(), attempt.claim))
    try:
        response = get_response(request)
        if not getattr(response, "is_rendered", True):
            response.render()
    except Exception as error:
        attempt._doubt(f"the view raised {type(error).__name__}")
        raise
    except BaseException:
        _native.abandon(attempt.claim)
        raise
    finally:
        _work.running.reset(inside)
    return _ended(attempt, response)


def _ended(attempt: _Attempt, response: Any) -> Any:
    asked, status = attempt.asked, response.status_code
    fields = _bytes(response.items())
    verdict = attempt.running.verdict(asked, status)
    if verdict == "release":
        attempt._record(attempt.claim.release)
        return response
    if verdict == "doubt":
        attempt._doubt(attempt.running.why(status))
        return response
    if response.streaming:
        return _streamed(attempt, response)
    body = response.content
    if not asked.holds(fields) or len(body) > asked.kept_limit_bytes:
        kept = attempt._record(attempt.claim.complete_without_result)
    else:
        kept = attempt._record(lambda: asked.keep(attempt.claim, status, fields, body))
    return response if kept else _of(asked.problem("not_recorded"))


def _streamed(attempt: _Attempt, response: StreamingHttpResponse) -> Any:
    """An answer that goes out as it comes, and its end when that is recorded."""
    if response.is_async:
        log.warning("an answer streams by an async iterator, whose end is not seen; it is recorded as executed")
        kept = attempt._record(attempt.claim.complete_without_result)
        return response if kept else _of(attempt.asked.problem("not_recorded"))
    stream = _Stream(attempt, [], iter(response.streaming_content), None)
    response.streaming_content = stream
    return response
