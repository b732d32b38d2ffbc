"""The rules of HTTP against the shared vectors, as the middlewares ask for them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import semel
from semel import _native as native

VECTORS = json.loads((pathlib.Path(__file__).parents[2] / "tests" / "vectors" / "http.json").read_text())


def rules(rest: dict[str, Any] | None = None, routes: Any = (), tokens: Any = ()) -> tuple[native.HttpRules, semel.Store]:
    store = semel.open("memory:")
    return native.HttpRules(store, rest or {}, list(routes), list(tokens)), store


def latin1(text: str) -> bytes:
    return text.encode("latin-1")


def kind(answer: native.HttpAnswer | None) -> str | None:
    if answer is None:
        return None
    problem = json.loads(answer.body)
    assert dict(answer.fields)[b"content-type"] == b"application/problem+json"
    assert problem["status"] == answer.status
    statuses = {case["kind"]: case["status"] for case in VECTORS["problems"]}
    name: str = problem["type"].removeprefix("urn:semel:problem:")
    assert statuses[name] == answer.status
    return name


@pytest.mark.parametrize("case", VECTORS["keys"], ids=lambda case: case["name"])
def test_keys(case: dict[str, Any]) -> None:
    made, store = rules()
    asked = made.ask("POST", "/", "", [(b"idempotency-key", latin1(value)) for value in case["values"]])
    if "key" in case:
        claim = asked.admit(store, semel.GLOBAL, b"")
        assert isinstance(claim, semel.Claim)
        assert claim.key == (None, "http", case["key"])
    else:
        assert kind(asked.refusal) == ("key-missing" if case["fault"] == "missing" else "key-malformed")


@pytest.mark.parametrize("case", VECTORS["same"] + VECTORS["different"], ids=lambda case: case["name"])
def test_sameness(case: dict[str, Any]) -> None:
    made, store = rules({"query": case.get("rule")})

    def admit(part: dict[str, Any]) -> Any:
        fields = [(b"idempotency-key", b"k")]
        if part.get("type") is not None:
            fields.append((b"content-type", part["type"].encode()))
        asked = made.ask(part.get("method", "POST"), part.get("path", "/"), part.get("query", ""), fields)
        return asked, asked.admit(store, semel.GLOBAL, latin1(part.get("body", "")))

    asked, first = admit(case["a"])
    asked.keep(first, 201, [(b"content-type", b"text/plain"), (b"set-cookie", b"who=ann")], b"made")
    _, again = admit(case["b"])
    if "fields" in case:
        assert kind(again) == "key-reused"
        assert json.loads(again.body)["fields"] == case["fields"]
    else:
        assert (again.status, again.body) == (201, b"made")
        assert again.fields == [
            (b"content-type", b"text/plain"),
            (b"idempotent-replayed", b"true"),
            (b"content-length", b"4"),
        ]


@pytest.mark.parametrize("case", VECTORS["statuses"], ids=lambda case: case["policy"])
def test_statuses(case: dict[str, Any]) -> None:
    made, _ = rules({"policy": case["policy"]})
    asked = made.ask("POST", "/", "", [(b"idempotency-key", b"k")])
    for verdict in ("keep", "release", "doubt"):
        assert {asked.verdict(status) for status in case[verdict]} <= {verdict}
    assert asked.verdict("broken") == "doubt"
    assert asked.verdict("not_sent") == "release"
    with pytest.raises(semel.InvalidInput):
        asked.verdict("whatever")


def test_fields() -> None:
    names = VECTORS["fields"]["kept"] + VECTORS["fields"]["dropped"] + ["X-Order-Id"]
    made, store = rules({"keep_fields": ["x-order-id"]})
    asked = made.ask("POST", "/", "", [(b"idempotency-key", b"k")])
    claim = asked.admit(store, semel.GLOBAL, b"")
    assert isinstance(claim, semel.Claim)
    asked.keep(claim, 200, [(name.encode(), b"1") for name in names], b"")
    again = asked.admit(store, semel.GLOBAL, b"")
    assert isinstance(again, native.HttpAnswer)
    kept = {name.decode() for name, _ in again.fields} - {"idempotent-replayed", "content-length"}
    assert kept == {name.lower() for name in VECTORS["fields"]["kept"]} | {"x-order-id"}
    for name in VECTORS["fields"]["refused"]:
        with pytest.raises(semel.InvalidInput):
            rules({"keep_fields": [name]})


@pytest.mark.parametrize("case", VECTORS["bodies"], ids=lambda case: case["name"])
def test_keys_in_bodies(case: dict[str, Any]) -> None:
    for required in (True, False):
        made, store = rules({"key": f"json:{case['path']}", "required": required})
        asked = made.ask("POST", "/", "", [(b"content-type", b"application/json")])
        admitted = asked.admit(store, semel.GLOBAL, case["body"].encode())
        if "key" in case:
            assert isinstance(admitted, semel.Claim)
            assert admitted.key[2] == case["key"]
        elif case["problem"] == "key-missing" and not required:
            assert admitted is None
        else:
            assert isinstance(admitted, native.HttpAnswer)
            assert kind(admitted) == case["problem"]


@pytest.mark.parametrize("case", VECTORS["lengths"], ids=lambda case: case["name"])
def test_lengths(case: dict[str, Any]) -> None:
    made, store = rules({"max_body_bytes": case["limit"]})
    fields = [(b"idempotency-key", b"k"), *((b"content-length", value.encode()) for value in case["values"])]
    asked = made.ask("POST", "/", "", fields)
    came = asked.refusal or asked.admit(store, semel.GLOBAL, bytes(case.get("came", 0)))
    assert (None if isinstance(came, semel.Claim) else kind(came)) == case.get("problem")


@pytest.mark.parametrize("case", VECTORS["streams"], ids=str)
def test_streams(case: dict[str, Any]) -> None:
    made, _ = rules({"max_kept_bytes": 10})
    asked = made.ask("POST", "/", "", [(b"idempotency-key", b"k")])
    told = {b"content-type": case.get("type"), b"x-accel-buffering": case.get("buffering")}
    fields = [(name, value.encode()) for name, value in told.items() if value is not None]
    assert asked.holds(fields) is not case["stream"]
    assert not asked.holds([*fields, (b"content-length", b"11")])


@pytest.mark.parametrize("case", VECTORS["cors"], ids=str)
def test_cors(case: dict[str, Any]) -> None:
    names = case["names"]
    preflight = names != ["idempotent-replayed", "retry-after"]
    key = names[0] if preflight else "idempotency-key"
    made, _ = rules({"key": f"header:{key}"})
    asked = [(b"origin", b"https://shop.example"), (b"access-control-request-method", b"POST")] if preflight else []
    listed = b"access-control-allow-headers" if preflight else b"access-control-expose-headers"
    answered = [(listed, text.encode()) for text in case["given"]]
    if preflight:
        assert made.cors("OPTIONS", asked, answered) is None
        answered.append((b"access-control-allow-origin", b"*"))
    more = made.cors("OPTIONS" if preflight else "POST", asked, answered)
    lacks = case["lacks"]
    if key != "idempotency-key" and lacks is not None:
        lacks += ", idempotency-key"
    assert more == (None if lacks is None else (listed, lacks.encode()))


def listed(patterns: list[str]) -> list[tuple[str, Any]]:
    return [
        (pattern[1:], None) if pattern.startswith("!") else (pattern, {"operation": str(number)})
        for number, pattern in enumerate(patterns)
    ]


@pytest.mark.parametrize("case", VECTORS["routes"]["lists"], ids=lambda case: case["patterns"][0])
def test_routes(case: dict[str, Any]) -> None:
    made, _ = rules({"operation": "-1", "methods": ["POST", "PATCH", "OPTIONS"]}, listed(case["patterns"]))
    for request in case["requests"]:
        asked = made.ask(request["method"], request["path"], "", [(b"idempotency-key", b"k")])
        found = None if asked.sort == "passes" else int(asked.operation)
        assert found == request["guarded"], request


@pytest.mark.parametrize("case", VECTORS["routes"]["refused"], ids=lambda case: case["name"])
def test_refused_routes(case: dict[str, Any]) -> None:
    with pytest.raises(semel.InvalidInput):
        rules({}, listed(case["patterns"]))


@pytest.mark.parametrize(
    "rest",
    [
        {"colour": 1},
        {"in_doubt": "ask"},
        {"methods": "POST"},
        {"methods": []},
        {"query": "some"},
        {"policy": "lenient"},
        {"max_body_bytes": -1},
        {"key": "cookie:a"},
        {"operation": " "},
        {"tokens": " "},
        {"retain": 0},
    ],
    ids=str,
)
def test_rules_that_cannot_be_kept(rest: dict[str, Any]) -> None:
    with pytest.raises(semel.InvalidInput):
        rules(rest)


def test_a_warning_of_a_field_that_is_made_anew_for_each_attempt() -> None:
    made, _ = rules({"key": "header:X-Request-Id"})
    assert "x-request-id" in made.warnings()[0]
    assert rules()[0].warnings() == []
