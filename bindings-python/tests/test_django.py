"""The app for Django: its middleware, its decorator, its commands."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import semel

django = pytest.importorskip("django")

from django.conf import settings  # noqa: E402

if not settings.configured:
    settings.configure(
        SECRET_KEY="x",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["semel.django"],
        MIDDLEWARE=[],
        DATABASES={},
    )
    django.setup()

from django.core.management import call_command  # noqa: E402
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.test import Client, override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from semel.django import idempotent  # noqa: E402

CALLS: list[Any] = []


def orders(request: Any, no: str) -> HttpResponse:
    CALLS.append(no)
    body = json.loads(request.body)
    response = JsonResponse({"no": no, "amount": body["amount"], "key": len(request.semel.derive_key("charge"))}, status=201)
    response.set_cookie("who", "ann")
    return response


def fails(request: Any) -> HttpResponse:
    CALLS.append("fails")
    raise ValueError("nobody knows")


def later(request: Any) -> HttpResponse:
    CALLS.append("later")
    return HttpResponse(status=429)


def streams(request: Any) -> StreamingHttpResponse:
    CALLS.append("streams")
    return StreamingHttpResponse(iter([b"a", b"b"]), content_type="text/event-stream")


@idempotent(operation="one", scope=lambda request: request.headers.get("X-User"))
def one(request: Any) -> HttpResponse:
    CALLS.append("one")
    if request.body == b"fails":
        raise ValueError("nobody knows")
    return HttpResponse(b"one")


urlpatterns = [
    path("orders/<str:no>", orders),
    path("fails", fails),
    path("later", later),
    path("streams", streams),
    path("one", one),
]


def who(get_response: Any) -> Any:
    """Finds out who asks, as the middleware of Django's own does."""

    def middleware(request: Any) -> Any:
        name = request.headers.get("X-User")
        request.user = SimpleNamespace(pk=name, is_authenticated=name is not None)
        return get_response(request)

    return middleware


@pytest.fixture
def client(store: semel.Store) -> Iterator[Client]:
    CALLS.clear()
    middleware = [f"{__name__}.who", "semel.django.IdempotencyMiddleware"]
    rules = {"STORE": store, "ROUTES": {"/one": None}, "TOKEN_ROUTE": ("/token", "checkout", 300), "CORS": True}
    with override_settings(MIDDLEWARE=middleware, SEMEL=rules):
        yield Client(raise_request_exception=False)


def post(client: Client, where: str, body: Any = b"{}", key: str | None = "k", user: str | None = "ann") -> Any:
    headers = {name: value for name, value in {"Idempotency-Key": key, "X-User": user}.items() if value is not None}
    return client.post(where, body, content_type="application/json", headers=headers)


def problem(response: Any) -> str:
    assert response["Content-Type"] == "application/problem+json"
    return str(json.loads(response.content)["type"]).removeprefix("urn:semel:problem:")


def test_the_middleware(client: Client) -> None:
    first = post(client, "/orders/A", b'{"amount": 1}')
    again = post(client, "/orders/A", b'{"amount":1.0}')
    assert (first.status_code, first.json()) == (201, {"no": "A", "amount": 1, "key": 32})
    assert (again.status_code, again.content) == (201, first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert again["Access-Control-Expose-Headers"] == "idempotent-replayed, retry-after"
    assert "who" in first.cookies
    assert "who" not in again.cookies
    assert problem(post(client, "/orders/A", b'{"amount": 2}')) == "key-reused"
    assert problem(post(client, "/orders/A", b'{"amount": 1}', user=None)) == "request-malformed"
    assert post(client, "/orders/A", b'{"amount": 1}', user="bob").status_code == 201
    assert problem(post(client, "/orders/A", key=None)) == "key-missing"
    assert CALLS == ["A", "A"]
    assert client.get("/later").status_code == 429


def test_what_views_say(client: Client, store: semel.Store) -> None:
    assert post(client, "/fails").status_code == 500
    assert problem(post(client, "/fails")) == "in-doubt"
    assert [post(client, "/later", key="l").status_code for _ in range(2)] == [429, 429]
    told = post(client, "/streams", key="s")
    assert b"".join(told.streaming_content) == b"ab"
    told.close()
    assert problem(post(client, "/streams", key="s")) == "answer-gone"
    assert CALLS == ["fails", "later", "later", "streams"]


def test_limits_and_tokens(client: Client) -> None:
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=3):
        assert problem(post(client, "/orders/A", b'{"amount": 1}')) == "body-too-large"
    token = post(client, "/token", key=None)
    assert (token.status_code, token["Cache-Control"]) == (201, "no-store")
    assert CALLS == []


def test_one_view(client: Client) -> None:
    assert [post(client, "/one").content for _ in range(2)] == [b"one", b"one"]
    assert problem(post(client, "/one", user=None)) == "request-malformed"
    assert post(client, "/one", b"fails", key="f").status_code == 500
    assert problem(post(client, "/one", b"fails", key="f")) == "in-doubt"
    assert CALLS == ["one", "one"]
    with pytest.raises(semel.InvalidInput, match="async"):

        @idempotent()
        async def view(request: Any) -> None: ...


def test_commands(client: Client, store: semel.Store) -> None:
    out = io.StringIO()
    call_command("semel_unresolved", stdout=out)
    assert out.getvalue() == ""
    post(client, "/fails")
    with pytest.raises(SystemExit) as told:
        call_command("semel_unresolved", stdout=out)
    assert told.value.code == 1
    assert out.getvalue().split("\t")[1:4] == ["ann", "http", "k"]
    call_command("semel_sweep", stdout=out)
    assert "0 records were freed" in out.getvalue()


@pytest.mark.parametrize("given", [None, {}, {"STORE": "memory:", "COLOUR": 1}], ids=str)
def test_settings_that_cannot_be_used(given: Any) -> None:
    from semel.django import IdempotencyMiddleware

    with override_settings(SEMEL=given), pytest.raises(semel.InvalidInput, match=r"settings\.SEMEL"):
        IdempotencyMiddleware(lambda request: None)


def test_a_place_is_opened_once(tmp_path: Any) -> None:
    from semel.django import store

    with override_settings(SEMEL={"STORE": tmp_path / "s"}):
        first = store()
        assert store() is first
    first.close()
