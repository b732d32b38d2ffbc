"""`store.idempotent`: functions, methods and coroutines that run once for each key."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import semel


@dataclasses.dataclass
class Request:
    order_no: str
    amount: int
    tenant: str = "t1"


class Declined(Exception):
    code = "card_declined"


def test_a_function_runs_once_for_each_key(store: semel.Store) -> None:
    ran: list[str] = []

    @store.idempotent("order.create", key="req.order_no", scope="req.tenant")
    def create(req: Request, note: str = "") -> str:
        """Creates an order."""
        ran.append(req.order_no)
        return f"order {len(ran)}"

    assert [create(Request("1", 100)) for _ in range(3)] == ["order 1"] * 3
    assert create(Request("1", 100, tenant="t2")) == "order 2"
    assert create(Request("2", 100), note="x") == "order 3"
    assert (create.__name__, create.__doc__) == ("create", "Creates an order.")
    assert list(inspect.signature(create).parameters) == ["req", "note"]
    with pytest.raises(semel.Mismatch) as mismatch:
        create(Request("1", 200))
    assert mismatch.value.fields == ("req",)
    record = create.lookup(Request("1", 100))
    assert record is not None
    assert (record.scope, record.operation, record.id) == ("t1", "order.create", "1")
    assert create.forget(Request("1", 100)) == "forgotten"
    assert create.lookup(Request("1", 100)) is None
    assert create(Request("1", 200)) == "order 4"


def test_arguments_are_the_same_however_they_are_passed(store: semel.Store) -> None:
    ran: list[int] = []

    @store.idempotent("o", key="a")
    def work(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
        ran.append(a)
        return a + b + c

    assert work(1) == work(a=1) == work(1, 2) == work(1, b=2, c=3) == 6
    assert ran == [1]
    with pytest.raises(semel.Mismatch):
        work(1, d=4)
    with pytest.raises(TypeError):
        work()


def test_methods_leave_self_out_of_the_payload(store: semel.Store) -> None:
    class Service:
        def __init__(self, tenant: str) -> None:
            self.tenant = tenant
            self.ran = 0

        @store.idempotent("order.pay", key="order_no", scope="self.tenant")
        def pay(self, order_no: str, amount: int) -> int:
            self.ran += 1
            return amount

        @classmethod
        @store.idempotent("order.all", key="order_no")
        def of_class(cls, order_no: str) -> str:
            return cls.__name__

        @staticmethod
        @store.idempotent("order.static", key="order_no")
        def static(order_no: str) -> str:
            return order_no

    service = Service("t1")
    assert [service.pay("1", 5), service.pay("1", 5)] == [5, 5]
    assert service.ran == 1
    assert Service("t2").pay("1", 6) == 6
    assert service.pay.lookup(service, "1", 5).state == "succeeded"
    assert Service.of_class("1") == service.of_class("1") == "Service"
    assert Service.static("1") == "1"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"key": "req.order_no"}, {"order_no": "7", "amount": 1}),
        ({"key": "req.order.no"}, {"order": {"no": "7"}}),
        ({"key": lambda req: req["order_no"]}, {"order_no": "7"}),
        ({"key": lambda *args, **kwargs: 7}, {}),
    ],
)
def test_keys_come_from_members_and_functions(store: semel.Store, given: dict[str, Any], value: Any) -> None:
    @store.idempotent("o", **given)
    def work(req: dict[str, Any]) -> str:
        return "done"

    assert work(value) == "done"
    assert store.lookup("o", "7") is not None


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"key": "order_no"}, "has no parameter 'order_no'; it has req"),
        ({"key": "req..x"}, "is no dotted path"),
        ({"key": 5}, "give a dotted path"),
        ({"key": lambda other, more: 1}, "does not take the arguments"),
        ({"key": "req", "scope": "tenant"}, "scope='tenant'"),
        ({"key": "req", "payload": ["reg.x"]}, "payload='reg.x'"),
        ({"key": "req", "on_repeat": "ignore"}, "'replay' or 'raise'"),
        ({"key": "req", "retain": "soon"}, "retain"),
        ({"key": "req", "retian": 5}, "there is no option"),
        ({"key": "req", "retry_on": (5,)}, "no class of exceptions"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(store: semel.Store, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(semel.InvalidInput, match=fault):

        @store.idempotent("o", **given)
        def work(req: Any) -> None:
            pass


def test_a_key_that_is_missing_runs_nothing(store: semel.Store) -> None:
    @store.idempotent("o", key="req.no", scope="req.tenant")
    def work(req: Any) -> None:
        pytest.fail("ran")

    for req in (
        {},
        {"no": None, "tenant": "t"},
        {"no": "", "tenant": "t"},
        {"no": 1.5, "tenant": "t"},
        {"no": 1, "tenant": None},
        object(),
    ):
        with pytest.raises(semel.InvalidInput):
            work(req)
    assert len(store) == 0


def test_generators_are_refused(store: semel.Store) -> None:
    def generator(x: int) -> Iterator[int]:
        yield x

    async def async_generator(x: int) -> AsyncIterator[int]:
        yield x

    for function in (generator, async_generator):
        with pytest.raises(semel.InvalidInput, match="is a generator"):
            store.idempotent("o", key="x")(function)
    for thing, fault in ((staticmethod(len), "above"), (int, "no function"), (5, "no function")):
        with pytest.raises(semel.InvalidInput, match=fault):
            store.idempotent("o", key="x")(thing)


def test_the_payload_may_be_a_part(store: semel.Store) -> None:
    @store.idempotent("one", key="no", payload="amount")
    def one(no: str, amount: int, session: object) -> int:
        return amount

    @store.idempotent("some", key="no", payload=["amount", "req.tenant"])
    def some(no: str, amount: int, req: Any) -> int:
        return amount

    @store.idempotent("none", key="no", payload=None)
    def none(no: str, amount: int) -> int:
        return amount

    @store.idempotent("fn", key="no", payload=lambda no, amount: amount % 10)
    def by_function(no: str, amount: int) -> int:
        return amount

    assert one("1", 5, object()) == one("1", 5, object()) == 5
    with pytest.raises(semel.Mismatch):
        one("1", 6, object())
    assert some("1", 5, Request("1", 1)) == some("1", 5, Request("2", 2)) == 5
    with pytest.raises(semel.Mismatch) as mismatch:
        some("1", 5, Request("1", 1, tenant="t2"))
    assert mismatch.value.fields == ("req.tenant",)
    assert none("1", 5) == none("1", 6) == 5
    assert by_function("1", 15) == by_function("1", 25) == 15


def test_exceptions_say_what_is_known(store: semel.Store) -> None:
    errors: list[Exception] = [TimeoutError("slow"), Declined("no funds")]

    @store.idempotent("o", key="no", retry_on=(TimeoutError,), fail_on=(Declined,))
    def work(no: str) -> None:
        raise errors.pop(0)

    with pytest.raises(TimeoutError):
        work("1")
    with pytest.raises(Declined):
        work("1")
    with pytest.raises(semel.Failed, match="no funds") as failed:
        work("1")
    assert (failed.value.code, failed.value.kind) == ("card_declined", "Declined")


def test_repeats_may_be_refused(store: semel.Store) -> None:
    @store.idempotent("o", key="no", on_repeat="raise", message="submitted already", fail_on=ValueError)
    def work(no: str) -> int:
        if no == "own":
            with pytest.raises(semel.Duplicate, match="submitted already") as busy:
                work(no)
            assert isinstance(busy.value.__cause__, semel.Busy)
        return int(no) if no != "own" else 0

    assert work("1") == 1
    with pytest.raises(semel.Duplicate, match="submitted already") as duplicate:
        work("1")
    assert duplicate.value.attempt == 1
    assert duplicate.value.executed_at is not None
    with pytest.raises(ValueError, match="x"):
        work("x")
    with pytest.raises(semel.Duplicate):
        work("x")
    assert work("own") == 0


def test_returns_says_what_a_repeat_is_read_as(store: semel.Store) -> None:
    @store.idempotent("o", key="no", returns=Request)
    def work(no: str) -> Any:
        return {"order_no": no, "amount": 5}

    assert work("1") == work("1") == Request("1", 5)


def test_a_wrapped_function_keeps_its_signature(store: semel.Store) -> None:
    def outer(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @outer
    @store.idempotent("o", key="no")
    def work(no: str, amount: int = 1) -> int:
        return amount

    assert work("1", amount=3) == work("1", 3) == 3


async def test_coroutines_run_once(store: semel.Store) -> None:
    ran: list[str] = []

    @store.idempotent("o", key="no", wait=10, retry_on=TimeoutError)
    async def work(no: str) -> str:
        ticket = semel.current()
        assert ticket is not None
        ran.append(no)
        await asyncio.sleep(0)
        if len(ran) == 1:
            raise TimeoutError
        return f"order {no} {ticket.attempt}"

    assert inspect.iscoroutinefunction(work)
    with pytest.raises(TimeoutError):
        await work("1")
    assert await asyncio.gather(*(work("1") for _ in range(20))) == ["order 1 2"] * 20
    assert ran == ["1", "1"]
    assert work.lookup("1").state == "succeeded"
    assert semel.current() is None


async def test_coroutines_may_refuse_repeats(store: semel.Store) -> None:
    @store.idempotent("o", key="no", on_repeat="raise", message="twice")
    async def work(no: str) -> str:
        return no

    assert await work("1") == "1"
    with pytest.raises(semel.Duplicate, match="twice"):
        await work("1")
