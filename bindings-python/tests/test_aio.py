"""`semel.aio`: the same verbs, awaited; cancelled at every await, and never in the way of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import semel
import semel.aio

LOOPS: list[Callable[[], Any]] = [asyncio.new_event_loop]
try:
    import uvloop

    LOOPS.append(uvloop.new_event_loop)
except ImportError:  # the tests run without it where there is no wheel
    pass


@pytest.fixture(params=LOOPS, ids=lambda make: make.__module__.split(".")[0])
def loop(request: pytest.FixtureRequest) -> Any:
    made = request.param()
    yield made
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


def test_the_verbs_on_each_loop(loop: Any, place: pathlib.Path) -> None:
    async def main() -> None:
        async with semel.aio.open(place) as store:
            claim = await store.claim("o", "1", scope="t", payload={"a": 1}, holder="me")
            assert (claim.answer, claim.attempt, claim.key) == ("execute", 1, ("t", "o", "1"))
            busy = await store.claim("o", "1", scope="t")
            assert (busy.answer, busy.holder) == ("busy", "me")
            await claim.renew()
            assert await claim.step("s", asyncio_value("step")) == "step"
            assert await claim.complete({"id": 1}) == {"id": 1}
            with pytest.raises(semel.Lost):
                await claim.complete(2)
            assert (await store.claim("o", "1", scope="t")).result() == {"id": 1}

            await (await store.claim("o", "2")).release()
            claim = await store.claim("o", "2")
            assert claim.attempt == 2
            await claim.fail(semel.Terminal("no", code="c"))
            with pytest.raises(semel.Failed):
                (await store.claim("o", "2")).result()

            await (await store.claim("o", "3")).doubt("why")
            assert [record.id for record in await store.unresolved()] == ["3"]
            assert await store.resolve("o", "3", value=5) == "resolved"
            assert (await store.lookup("o", "3")).value == 5
            assert await store.forget("o", "3") == "forgotten"

    loop.run_until_complete(main())


def asyncio_value(value: Any) -> Callable[[], Coroutine[Any, Any, Any]]:
    async def work() -> Any:
        await asyncio.sleep(0)
        return value

    return work


def test_many_tasks_share_one_run(loop: Any, place: pathlib.Path) -> None:
    ran: list[int] = []

    async def work() -> int:
        ran.append(1)
        await asyncio.sleep(0.01)
        return len(ran)

    async def main() -> None:
        async with semel.aio.open(place) as store:
            assert await asyncio.gather(*(store.run("o", "1", work, wait=30) for _ in range(50))) == [1] * 50
            results = await asyncio.gather(*(store.run("o", f"k{n}", asyncio_value(n)) for n in range(200)))
            assert results == list(range(200))

    loop.run_until_complete(main())
    assert ran == [1]


async def test_no_thread_is_started_for_claims_and_their_ends(place: pathlib.Path) -> None:
    async with semel.aio.open(place) as store:
        before = threading.active_count()
        for n in range(20):
            await store.run("o", n, asyncio_value(n))
        assert threading.active_count() == before


async def test_the_loop_goes_on_while_a_call_waits(place: pathlib.Path) -> None:
    async with semel.aio.open(place) as store:
        held = await store.claim("o", "1")
        waiting = asyncio.create_task(store.claim("o", "1", wait=30))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        await held.complete("done")
        assert (await waiting).result() == "done"


async def test_a_task_that_claims_its_own_key_is_busy_at_once() -> None:
    store = semel.aio.open("memory:")

    async def inner() -> str:
        answer: str = (await store.claim("o", "1", wait=30)).answer
        return answer

    async def outer() -> tuple[str, str]:
        return await inner(), await asyncio.create_task(inner())

    assert await store.run("o", "1", outer) == ("busy", "busy")


async def test_a_claim_that_is_cancelled_while_it_waits_claims_nothing() -> None:
    store = semel.aio.open("memory:")
    held = await store.claim("o", "1")
    waiting = asyncio.create_task(store.claim("o", "1", wait=30))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await held.release()
    assert (await store.claim("o", "1")).attempt == 2


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on() -> None:
    store = semel.aio.open("memory:")
    held = await store.claim("o", "1")
    waiting = asyncio.create_task(store.claim("o", "1", wait=30))
    other = asyncio.create_task(store.claim("o", "1", wait=30))
    await asyncio.sleep(0)
    # The store rings for the first who waits; he is cancelled before he is looked at.
    store.blocking.claim("o", "2").release()
    held._claim.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await other).answer == "execute"


async def test_work_that_is_cancelled_is_in_doubt() -> None:
    store = semel.aio.open("memory:")
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(store.run("o", "1", work))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    record = await store.lookup("o", "1")
    assert record.state == "in_doubt"
    assert "cancelled" in record.doubt or "went away" in record.doubt, record.doubt
    assert semel.current() is None


async def test_a_result_that_was_produced_is_kept_whatever_is_cancelled(place: pathlib.Path) -> None:
    async with semel.aio.open(place) as store:
        for n in range(20):
            ended = asyncio.Event()

            async def work(ended: asyncio.Event = ended) -> str:
                ended.set()
                return "produced"

            running = asyncio.create_task(store.run("o", n, work))
            await ended.wait()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                assert await running == "produced"
            assert (await store.claim("o", n)).result() == "produced"


@pytest.mark.parametrize("ahead", range(16))
async def test_cancelled_at_any_step_the_contract_holds(ahead: int, place: pathlib.Path) -> None:
    reached: list[str] = []

    async def work() -> str:
        reached.append("began")
        for _ in range(3):
            await asyncio.sleep(0)
        reached.append("produced")
        return "result"

    async with semel.aio.open(place) as store:
        running = asyncio.create_task(store.run("o", "1", work))
        for _ in range(ahead):
            await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert await running == "result"
        claim = await store.claim("o", "1")
        expected = {0: "execute", 1: "in_doubt", 2: "replay"}[len(reached)]
        assert claim.answer == expected


async def test_exceptions_of_the_work_say_what_is_known() -> None:
    store = semel.aio.open("memory:")

    async def raises(error: Exception) -> None:
        raise error

    for n, (error, answer) in enumerate(
        [(TimeoutError(), "execute"), (ValueError("v"), "failed"), (semel.Retryable(), "execute"), (OSError(), "in_doubt")]
    ):
        with pytest.raises(type(error)) as raised:
            await store.run("o", n, lambda error=error: raises(error), retry_on=TimeoutError, fail_on=ValueError)
        assert raised.value is error
        assert (await store.claim("o", n)).answer == answer


async def test_a_result_that_cannot_be_kept_warns() -> None:
    store = semel.aio.open("memory:")
    with pytest.warns(semel.ResultNotKept):
        await store.run("o", "1", asyncio_value(object()))
    with pytest.raises(semel.Gone):
        await store.run("o", "1", asyncio_value(1))


async def test_errors_come_at_the_call() -> None:
    store = semel.aio.open("memory:")
    with pytest.raises(semel.InvalidInput):
        await store.claim("o", "")
    with pytest.raises(semel.InvalidInput):
        await store.claim("o", "1", lease=0)
    await store.close()
    with pytest.raises(semel.Closed):
        await store.claim("o", "1")


async def test_locks_are_waited_for() -> None:
    store = semel.aio.open("memory:")
    async with store.lock("l", holder="me") as lock:
        assert lock.fence
        with pytest.raises(semel.InvalidInput, match="this very object"):
            await lock.acquire()
        with pytest.raises(semel.Busy) as busy:
            await store.lock("l").acquire()
        assert busy.value.holder == "me"
        other = store.lock("l", wait=30)
        waiting = asyncio.create_task(other.acquire())
        await asyncio.sleep(0)
    await waiting
    assert other.is_held
    await other.release()


async def test_the_schemes_are_awaited() -> None:
    store = semel.aio.open("memory:")
    assert (await store.unique("u").insert("1", 5)).answer == "inserted"
    assert await store.table("t").put("1", 5)
    assert (await store.table("t").get("1")).value == 5
    assert (await store.ledger("l").post("a", "1", 5)).balance == 5
    machine = store.machine("m", {"a": ["b"]}, initial="a")
    await machine.create("1")
    assert (await machine.fire("1", "a", "b", event="e")).answer == "applied"
    token = await store.tokens.issue("p", 60)
    assert await store.tokens.redeem(token, "p")
    assert await store.ids.segment("s") == 1
    assert await store.tick("d", "1d") is True
    assert await store.transaction(lambda tx: tx.emit("topic", "1", "hello")) is None
    assert await store.consume("c", "1", lambda tx: None) == "done"
    sent: list[Any] = []

    async def send(id: str, message: Any) -> None:
        await asyncio.sleep(0)
        sent.append((id, message))

    assert await store.outbox("topic").relay(send) == 1
    assert sent == [("1", "hello")]
    claims = await store.claim_many("o", ["1", "2"])
    assert [claim.answer for claim in claims] == ["execute", "execute"]
    await claims[0].complete(1)
    assert (await store.stats())["records"] > 0
    assert "semel_" in await store.metrics()


def test_loops_come_and_go() -> None:
    store = semel.aio.open("memory:")
    for n in range(5):
        assert asyncio.run(store.run("o", n, asyncio_value(n))) == n

    def elsewhere() -> None:
        assert asyncio.run(store.run("o", "t", asyncio_value("t"))) == "t"

    threads = [threading.Thread(target=elsewhere) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_loops_take_turns_in_one_thread() -> None:
    store = semel.aio.open("memory:")
    one, two = asyncio.new_event_loop(), asyncio.new_event_loop()
    held = store.blocking.claim("o", "1")
    waiting = one.create_task(store.claim("o", "1", wait=60))
    one.run_until_complete(asyncio.sleep(0))
    assert two.run_until_complete(store.run("o", "2", asyncio_value(2), wait=1)) == 2
    held.complete("done")
    assert one.run_until_complete(waiting).result() == "done"
    for loop in (one, two):
        loop.close()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout is of Python 3.11")
async def test_a_timeout_gives_up_a_wait() -> None:
    store = semel.aio.open("memory:")
    held = await store.claim("o", "1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await store.claim("o", "1", wait=60)
    await held.complete(1)
    assert (await store.claim("o", "1")).answer == "replay"
