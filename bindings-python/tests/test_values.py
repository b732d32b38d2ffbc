"""What comes back is what was given: equal values of equal types, for the first caller and for every repeat."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import math
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any, NamedTuple

import pydantic
import pytest
import semel
from hypothesis import given, settings
from hypothesis import strategies as st


class Color(enum.Enum):
    RED = "red"
    GREEN = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str


@dataclasses.dataclass
class Order:
    id: str
    total: Money
    color: Color = Color.RED
    lines: list[Money] = dataclasses.field(default_factory=list)
    cached: int = dataclasses.field(default=0, init=False)


class Point(NamedTuple):
    x: int
    y: int


class Line(pydantic.BaseModel):
    sku: str
    price: Decimal


class Basket(pydantic.BaseModel):
    id: uuid.UUID
    lines: list[Line]
    at: dt.datetime


def same(one: Any, two: Any) -> bool:
    """Equal, and of equal types all the way down; NaN is NaN, and zeros have signs."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, two) and (one == two or (math.isnan(one) and math.isnan(two)))
    if isinstance(one, Decimal):
        return one.as_tuple() == two.as_tuple()
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, dt.datetime):
        return one == two and one.fold == two.fold and str(one.tzinfo) == str(two.tzinfo)
    return bool(one == two)


def told(store: semel.Store, value: Any, **options: Any) -> tuple[Any, Any]:
    """What the first caller gets, and what a repeat gets."""
    key = str(uuid.uuid4())
    first = store.run("value", key, lambda: value, **options)
    again = store.run("value", key, lambda: pytest.fail("ran again"), **options)
    return first, again


VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**64),
    -(2**64) - 1,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    0.1,
    5e-324,
    float("inf"),
    float("nan"),
    "",
    "text",
    "e\u0301 \U0001f600 \x00",
    b"",
    b"\x00\xff",
    bytearray(b"x"),
    [],
    [1, [2, []]],
    (),
    (1, (2,), [3]),
    {},
    {"b": 1, "a": 2},
    {1: "one", None: 0, (1, 2): b"x", 1.5: True},
    set(),
    # The order of a set of texts is another one in each process, and the names of tests have to be the same in all.
    pytest.param({1, "a", None, (1, 2)}, id="set of several types"),
    frozenset({1, frozenset()}),
    Decimal("1.50"),
    Decimal("-0.00"),
    Decimal("1E+10"),
    Decimal("Infinity"),
    Decimal("123456789012345678901234567890.12345678901234567890"),
    dt.datetime(2026, 12, 1, 6, 0, 0, 123456),
    dt.datetime(2026, 12, 1, tzinfo=dt.timezone.utc),
    dt.datetime(2026, 12, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30, seconds=7))),
    dt.datetime(2026, 10, 25, 2, 30, fold=1),
    dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    dt.date(2026, 12, 1),
    dt.time(6, 0, 0, 1),
    dt.time(6, 0, tzinfo=dt.timezone.utc),
    dt.timedelta(days=-1, microseconds=1),
    uuid.UUID(int=7),
    complex(1, -0.0),
    Color.RED,
    Color.GREEN,
    Level.LOW,
    Right.READ | Right.WRITE,
    Point(1, 2),
    Money(Decimal("1.50"), "EUR"),
    Order("1", Money(Decimal("1"), "EUR"), Color.GREEN, [Money(Decimal("2.0"), "EUR")]),
    Line(sku="tea", price=Decimal("1.50")),
    Basket(id=uuid.UUID(int=1), lines=[Line(sku="tea", price=Decimal("1.50"))], at=dt.datetime(2026, 1, 1)),
    [Order("1", Money(Decimal("1"), "EUR")), {"c": Color.RED, "l": (Level.LOW,)}],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__ + ":" + repr(value)[:30])
def test_first_call_and_replay_give_the_same(store: semel.Store, value: Any) -> None:
    first, again = told(store, value)
    assert same(first, value)
    assert same(again, value)


keys = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.uuids()
scalars = (
    keys
    | st.floats()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.just(dt.timezone.utc))
    | st.dates()
    | st.timedeltas()
    | st.sampled_from(Color)
)
hashable = st.recursive(keys, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(trees)
def test_any_tree_comes_back(value: Any) -> None:
    with semel.open("memory:") as store:
        first, again = told(store, value)
        assert same(first, value)
        assert same(again, value)


def test_what_subclasses_a_known_type_is_that_type_for_everybody(store: semel.Store) -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    class Moment(dt.datetime):
        pass

    cases: list[tuple[Any, type]] = [
        (Text("x"), str),
        (Number(5), int),
        (collections.OrderedDict(a=1), dict),
        (collections.Counter("aab"), dict),
        (Moment(2026, 1, 1), dt.datetime),
    ]
    for value, kind in cases:
        first, again = told(store, value)
        assert type(first) is type(again) is kind
        assert first == again == value


def test_returns_says_what_a_result_is_read_as(store: semel.Store) -> None:
    written = {"id": "1", "total": {"amount": Decimal("1.5"), "currency": "EUR"}, "color": "red"}
    first, again = told(store, written, returns=Order)
    assert first == again == Order("1", Money(Decimal("1.5"), "EUR"))
    first, again = told(store, [Line(sku="tea", price=Decimal("1"))], returns=list[Line])
    assert first == again == [Line(sku="tea", price=Decimal("1"))]
    for kind in (Line | None, dict[str, Line], tuple[Line, ...], set[Color]):
        assert told(store, None, returns=kind) == (None, None)
    assert told(store, (Money(Decimal(1), "EUR"), None), returns=tuple[Money | None, ...])[1] == (
        Money(Decimal(1), "EUR"),
        None,
    )


def test_a_class_that_was_renamed_is_read_with_returns(store: semel.Store) -> None:
    def local() -> type:
        @dataclasses.dataclass
        class Old:
            x: int

        return Old

    with pytest.warns(semel.ResultNotKept, match="import it, or pass returns="):
        store.run("o", "local", lambda: local()(5))
    assert store.claim("o", "local").answer == "gone"

    renamed = dataclasses.make_dataclass("Old", [("x", int)], namespace={"__module__": __name__})
    globals()["Old"] = renamed
    try:
        store.run("o", "1", lambda: renamed(5))
    finally:
        del globals()["Old"]
    with pytest.raises(semel.InvalidInput, match="not loaded or has none"):
        store.run("o", "1", lambda: pytest.fail("ran again"))
    assert store.claim("o", "1").answer == "replay"

    @dataclasses.dataclass
    class New:
        x: int

    assert store.run("o", "1", lambda: pytest.fail("ran again"), returns=New) == New(5)


def test_what_cannot_be_written_is_named(store: semel.Store) -> None:
    ring: list[Any] = []
    ring.append(ring)
    for value, fault in (
        (object(), "builtins.object"),
        (ring, "contains itself"),
        ("\ud800", "surrogate"),
        (lambda: 1, "function"),
    ):
        with pytest.warns(semel.ResultNotKept, match=fault):
            store.run("o", str(uuid.uuid4()), lambda value=value: value)


def test_a_deep_value_within_the_limit_comes_back(store: semel.Store) -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    assert told(store, value) == (value, value)
    value = 1
    for _ in range(39):
        value = (value,)
    assert told(store, value) == (value, value)


def test_raw_bytes_of_other_languages_are_bytes(store: semel.Store) -> None:
    def emit(tx: semel.Transaction) -> None:
        tx.emit("t", "1", b"\x00raw")
        tx.emit("t", "2", {"a": (1,)})

    store.transaction(emit)
    sent: list[Any] = []
    store.outbox("t").relay(lambda id, message: sent.append(message))
    assert sent == [b"\x00raw", {"a": (1,)}]
