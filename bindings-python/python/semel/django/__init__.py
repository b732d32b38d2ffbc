"""For Django: a middleware, a decorator for one view, and commands of ``manage.py``.

    INSTALLED_APPS = [..., "semel.django"]
    MIDDLEWARE = [..., "django.contrib.auth.middleware.AuthenticationMiddleware", "semel.django.IdempotencyMiddleware"]
    SEMEL = {"STORE": BASE_DIR / "data" / "semel"}

``SEMEL`` has ``STORE`` (a directory or a store), ``SCOPE`` (a function of the request or its dotted path; without it the primary
key of the user, and requests of nobody are answered 400; or ``semel.GLOBAL``), and under ``RULES``, ``ROUTES``, ``TOKEN_ROUTE``
and ``CORS`` what ``semel.asgi.IdempotencyMiddleware`` takes. Needs django: ``pip install django``.
"""

from __future__ import annotations

try:
    import django as _django  # noqa: F401
except ImportError as error:
    raise ImportError("semel.django needs django: pip install django") from error

from ._guard import IdempotencyMiddleware, idempotent
from ._settings import store

__all__ = ["IdempotencyMiddleware", "idempotent", "store"]
