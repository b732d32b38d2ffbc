"""The canonical form: the shared vectors, and the types that Python adds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import pydantic
import pytest
import semel
from hypothesis import given, settings
from hypothesis import strategies as st


class Color(enum.Enum):
    RED = "red"


class Currency(str, enum.Enum):
    EUR = "EUR"


@dataclasses.dataclass
class Deposit:
    amount: int


@dataclasses.dataclass
class Withdrawal:
    amount: int


class Point(NamedTuple):
    x: int
    y: int


class Model(pydantic.BaseModel):
    b: int
    a: Decimal


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, "null"),
        ([True, False], "[true,false]"),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (Decimal("0.10"), "0.1"),
        (Decimal("-0"), "0"),
        (Decimal("1E+2"), "100"),
        (9007199254740993, "9007199254740993"),
        (10**30, "1e+30"),
        ((1, 2), "[1,2]"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({1: 2, "1": 3}, '@"map":[["1",3],[1,2]]'),
        ({3, 1, 2}, '@"set":[1,2,3]'),
        (frozenset({"b", "a"}), '@"set":["a","b"]'),
        ([b"\x00\xff"], '[@"bytes":"00ff"]'),
        ([bytearray(b"\x00\xff")], '[@"bytes":"00ff"]'),
        (dt.date(2026, 12, 1), '@"date":"2026-12-01"'),
        (dt.datetime(2026, 12, 1, 6), '@"datetime":"2026-12-01T06:00:00"'),
        (dt.datetime(2026, 12, 1, 6, tzinfo=dt.timezone.utc), '@"datetime":"2026-12-01T06:00:00+00:00"'),
        (
            dt.datetime(2026, 12, 1, 7, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            '@"datetime":"2026-12-01T06:00:00+00:00"',
        ),
        (dt.time(6), '@"time":"06:00:00"'),
        (dt.timedelta(days=1, seconds=1), '@"timedelta":[1,1,0]'),
        (uuid.UUID(int=1), '@"uuid":"00000000-0000-0000-0000-000000000001"'),
        (Color.RED, '@"enum Color":"red"'),
        (Currency.EUR, '@"enum Currency":"EUR"'),
        (Deposit(5), '@"class Deposit":{"amount":5}'),
        (Point(1, 2), '@"class Point":{"x":1,"y":2}'),
        (Model(b=1, a=Decimal("1.0")), '@"class Model":{"a":1,"b":1}'),
        (semel.Json('{"b": 1.0, "a": "\\u0041"}'), '{"a":"A","b":1}'),
        ([semel.Json(b"[1]"), 2], "[[1],2]"),
    ],
)
def test_each_type_has_one_form(value: Any, form: str) -> None:
    assert semel.canonical(value).decode() == form


def test_bytes_alone_are_what_every_language_sends() -> None:
    assert semel.canonical(b"[1]") == b"bytes:[1]"


def test_two_classes_with_the_same_members_are_two_requests(store: semel.Store) -> None:
    store.claim("o", "1", payload={"op": Deposit(5)}).complete()
    assert store.claim("o", "1", payload={"op": Withdrawal(5)}).fields == ("op",)
    store.claim("o", "2", payload=Deposit(5)).complete()
    assert store.claim("o", "2", payload=Deposit(6)).fields == ("amount",)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (float("nan"), "NaN"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "infinities"),
        ({"a": [1, {"b": object()}]}, r"\$\.a\[1\]\.b: a value of type builtins\.object cannot be written; pass payload="),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        pytest.param(10**5000, "more digits than Python writes", id="long"),
        (Decimal("1e100001"), "exponent"),
        (semel.Json("{"), "at "),
        (semel.Json('{"a":1,"a":2}'), "repeated"),
        (lambda: 1, "cannot be written"),
    ],
)
def test_what_has_no_form_is_refused_before_the_claim(store: semel.Store, value: Any, fault: str) -> None:
    with pytest.raises(semel.InvalidInput, match=fault):
        store.claim("o", "1", payload=value)
    assert store.lookup("o", "1") is None


def test_a_ring_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(semel.InvalidInput, match="nested more than 128 deep"):
        semel.canonical(ring)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_a_value_has_the_form_of_its_json_text(value: Any) -> None:
    assert semel.canonical(value) == semel.canonical(semel.Json(json.dumps(value)))
    assert semel.canonical(semel.Json(semel.canonical(value))) == semel.canonical(value)


@settings(max_examples=80, deadline=None)
@given(json_values, json_values)
def test_forms_are_equal_when_values_are(one: Any, two: Any) -> None:
    exactly = lambda value: json.dumps(value, sort_keys=True, default=str)  # noqa: E731
    if exactly(one) == exactly(two):
        assert semel.fingerprint(one) == semel.fingerprint(two)
    elif semel.canonical(one) == semel.canonical(two):
        assert one == two
