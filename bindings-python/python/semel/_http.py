"""What both middlewares share: how they are set up, what a handler may know, and how a ticket ends."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from . import _native
from ._errors import InvalidInput, Timeout, Unavailable
from ._native import GLOBAL
from ._store import Store

#: Where the middlewares tell what no client is told.
log = logging.getLogger("semel")

#: The name under which a handler finds its `Running` in the ASGI scope and in the WSGI environ.
RUNNING = "semel"

#: How long an answer whose client has gone is read on, in seconds, so that the application can finish.
READ_ON_SECONDS = 600.0

#: The pauses in seconds before recording is tried again, for about ten minutes.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *(5.0,) * 119)

#: What a path may have besides letters, digits and ``-._~`` without being escaped (RFC 3986, section 3.3).
_PATH_CHARACTERS = "/:@!$&'()*+,;="

Fields = list[tuple[bytes, bytes]]


class Settings:
    """How a middleware was set up."""

    def __init__(
        self,
        store: Store,
        scope: Any,
        rules: Mapping[str, Any],
        routes: Mapping[str, Any] | Iterable[tuple[str, Any]],
        token_route: Any,
        cors: bool,
    ) -> None:
        if scope is None:
            raise InvalidInput(
                "scope is missing: give a function of the request that names whose it is, or scope=semel.GLOBAL, "
                "which lets whoever sends a used key have its answer"
            )
        if not callable(scope) and scope is not GLOBAL:
            raise InvalidInput(f"scope is {scope!r}; give a function of the request, or semel.GLOBAL")
        self.store: Store = getattr(store, "blocking", store)
        if not isinstance(self.store, Store):
            raise InvalidInput(f"the store is {store!r}; give what semel.open or semel.aio.open gives")
        self.scope = scope
        self.cors = cors
        pairs = routes.items() if isinstance(routes, Mapping) else routes
        listed = [(pattern, None if own is None else dict(own)) for pattern, own in pairs]
        tokens = [] if token_route is None else [token_route] if isinstance(token_route[0], str) else list(token_route)
        self.rules = _native.HttpRules(self.store, dict(rules), listed, tokens)
        for warning in self.rules.warnings():
            warnings.warn(warning, stacklevel=4)

    def whose(self, request: Any) -> Any:
        """Whose the request is; None when nobody's."""
        return GLOBAL if self.scope is GLOBAL else self.scope(request)

    def told(self, method: str, asked: Fields, answered: Fields) -> Fields:
        """The fields of an answer, with what other origins are told besides."""
        if not self.cors:
            return answered
        more = self.rules.cors(method, asked, answered)
        return [*answered, more] if more else answered


class Running:
    """The attempt that answers a guarded request: ``scope["semel"]`` under ASGI, ``environ["semel"]`` under WSGI.

    Hand ``derive_key(name)`` to services that take idempotency keys themselves, and ``fence`` to those that can refuse a lower
    one. A handler that knows more than its status tells sets ``ending`` before it answers: "not_sent" frees the key, "broken"
    leaves a doubt, a number counts as that status.
    """

    __slots__ = ("_claim", "ending")

    def __init__(self, claim: _native.Claim) -> None:
        self._claim = claim
        self.ending: int | Literal["broken", "not_sent"] | None = None

    def derive_key(self, name: str) -> str:
        """A key for another service that is the same in every attempt."""
        return self._claim.derive_key(name)

    @property
    def fence(self) -> int:
        """A number that is higher for every attempt of the key."""
        fence = self._claim.fence
        assert fence is not None
        return fence

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempt

    @property
    def takeover(self) -> bool:
        """Whether an earlier attempt ended with unknown effect."""
        return self._claim.takeover

    @property
    def lost(self) -> bool:
        """Whether the key is known to be lost to another attempt: what this one answers is not kept."""
        return self._claim.lost

    def verdict(self, asked: _native.HttpAsked, status: int) -> str:
        """What becomes of the key: "keep", "release" or "doubt"."""
        return asked.verdict(status if self.ending is None else self.ending)

    def why(self, status: int) -> str:
        """The doubt of an answer, in words."""
        told = status if self.ending is None else self.ending
        return f"it was answered with status {told}" if isinstance(told, int) else "its answer broke off"


def may_try_again(error: BaseException) -> bool:
    """Whether what could not be recorded may be recorded later."""
    return isinstance(error, (Unavailable, Timeout))


def spelled(path: str, encoding: str = "utf-8") -> str:
    """A path as it came, as far as one that was decoded tells."""
    return quote(path, safe=_PATH_CHARACTERS, encoding=encoding)
