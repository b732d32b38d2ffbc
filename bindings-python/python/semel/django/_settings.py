"""What ``settings.SEMEL`` says."""

from __future__ import annotations

import functools
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from .._errors import InvalidInput
from .._http import Settings
from .._store import Store, open

_NAMES = ("STORE", "SCOPE", "RULES", "ROUTES", "TOKEN_ROUTE", "CORS")


def given() -> dict[str, Any]:
    """The setting, with names that are known."""
    told = getattr(settings, "SEMEL", None)
    if not isinstance(told, dict) or "STORE" not in told:
        raise InvalidInput('settings.SEMEL is missing, or has no STORE; write SEMEL = {"STORE": BASE_DIR / "data" / "semel"}')
    unknown = [name for name in told if name not in _NAMES]
    if unknown:
        raise InvalidInput(f"settings.SEMEL has {', '.join(map(repr, unknown))}; it may have {', '.join(_NAMES)}")
    return told


@functools.cache
def _opened(place: Any) -> Store:
    return open(place)


def store() -> Store:
    """The store of ``settings.SEMEL``, opened when it is first asked for: all processes of the site share it."""
    place = given()["STORE"]
    return place if isinstance(place, Store) else _opened(str(place))


def user(request: Any) -> str | None:
    """Whose a request is when nothing else is said: the user's who is logged in."""
    who = getattr(request, "user", None)
    return str(who.pk) if who is not None and who.is_authenticated else None


def made(rules: dict[str, Any] | None = None) -> Settings:
    """The rules of the middleware; or with ``rules``, those of one view over them."""
    told = given()
    scope = told.get("SCOPE", user)
    scope = import_string(scope) if isinstance(scope, str) else scope
    base = dict(told.get("RULES") or {})
    if rules is not None:
        return Settings(store(), rules.pop("scope", scope), {**base, **rules}, (), None, bool(told.get("CORS")))
    return Settings(store(), scope, base, told.get("ROUTES") or (), told.get("TOKEN_ROUTE"), bool(told.get("CORS")))
