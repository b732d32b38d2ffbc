"""What the scenarios of all languages do not reach: Python's own values, closures, guards and batches."""

from __future__ import annotations

import datetime as dt
import pathlib
import pickle
import threading
from decimal import Decimal
from typing import Any

import pytest
import semel


def test_rows_hold_values_of_python(store: semel.Store) -> None:
    value = {"price": Decimal("1.50"), "at": dt.date(2026, 12, 1), "tags": {"a"}}
    table = store.table("t")
    table.put("1", value)
    row = table.get("1")
    assert row is not None
    assert (row.id, row.value) == ("1", value)
    assert store.unique("u").insert("1", value).answer == "inserted"
    assert store.unique("u").insert("1", dict(reversed(value.items()))).answer == "exists"
    conflict = store.unique("u").insert("1", {**value, "price": Decimal("1.5")})
    assert (conflict.answer, conflict.row) == ("conflict", value)
    assert store.unique("u").get("1") == value
    assert store.unique("u").get("2") is None


def test_modify_runs_again_when_somebody_else_was_first(store: semel.Store) -> None:
    table = store.table("t")

    def add() -> None:
        for _ in range(20):
            table.modify("n", lambda n: (n or 0) + 1)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = table.get("n")
    assert row is not None
    assert row.value == 160
    with pytest.raises(ZeroDivisionError):
        table.modify("n", lambda n: n / 0)
    assert table.get("n").value == 160


def test_a_transaction_rolls_back_what_raises(store: semel.Store) -> None:
    claim = store.claim("o", "1")

    def work(tx: semel.Transaction) -> None:
        tx.table("t").put("1", 1)
        tx.complete(claim, "done")
        raise KeyError("no")

    with pytest.raises(KeyError):
        store.transaction(work)
    assert store.table("t").get("1") is None
    assert store.claim("o", "1").answer == "busy"

    def paid(tx: semel.Transaction) -> str:
        tx.table("t").put("1", 1)
        assert tx.table("t").get("1").value == 1
        assert tx.unique("u").insert("1", 1).answer == "inserted"
        assert tx.ledger("l").post("a", "1", 5).balance == 5
        assert tx.mark("c", "1") is True
        assert tx.table("t").modify("1", lambda n: n + 1) == 2
        assert tx.now.tzinfo is not None
        tx.complete(claim, "done")
        return "value"

    assert store.transaction(paid, durability="relaxed", timeout=1) == "value"
    assert store.claim("o", "1").result() == "done"
    assert store.table("t").get("1").value == 2


def test_a_transaction_that_is_over_says_so(store: semel.Store) -> None:
    kept: list[Any] = []
    store.transaction(lambda tx: kept.extend([tx, tx.table("t")]))
    with pytest.raises(semel.InvalidInput, match="the transaction is over"):
        kept[0].emit("t", "1", 1)
    with pytest.raises(semel.InvalidInput, match="the transaction is over"):
        kept[1].put("1", 1)


def test_a_transaction_may_be_used_from_another_thread(store: semel.Store) -> None:
    def work(tx: semel.Transaction) -> None:
        thread = threading.Thread(target=lambda: tx.table("t").put("1", "there"))
        thread.start()
        thread.join()

    store.transaction(work)
    assert store.table("t").get("1").value == "there"


def test_a_transaction_fails_a_claim(store: semel.Store) -> None:
    claim = store.claim("o", "1")
    store.transaction(lambda tx: tx.fail(claim, semel.Terminal("declined", code="card")))
    assert store.claim("o", "1").answer == "failed"
    with pytest.raises(semel.Lost):
        store.transaction(lambda tx: tx.complete(claim))


def test_rows_are_locked_together(store: semel.Store) -> None:
    accounts = store.table("account")
    accounts.put("a", 100)
    with store.lock_rows("account", ["b", "a"]) as rows:
        assert list(rows) == ["a", "b"]
        assert ("a" in rows, "c" in rows, len(rows)) == (True, False, 2)
        assert (rows["a"], rows["b"]) == (100, None)
        rows["a"] -= 30
        rows["b"] = 30
        with pytest.raises(KeyError):
            rows["c"] = 1
        with pytest.raises(semel.InvalidInput, match="locked by this very thread"):
            accounts.put("a", 0)
        with pytest.raises(semel.InvalidInput, match="holds rows already"):
            store.lock_rows("account", ["c"]).__enter__()
    assert (accounts.get("a").value, accounts.get("b").value) == (70, 30)

    with pytest.raises(ZeroDivisionError):
        with store.lock_rows("account", ["a"]) as rows:
            rows["a"] = 1 / 0
    assert accounts.get("a").value == 70

    with store.lock_rows("account", ["a", "b"]) as rows:
        del rows["b"]
        rows["a"] = 71
        assert rows.commit_with(lambda tx: tx.ledger("l").post("x", "1", 5).balance) == 5
    assert accounts.get("b") is None
    assert accounts.get("a").value == 71
    with pytest.raises(semel.InvalidInput, match="not locked"):
        rows["a"]


def test_rows_are_waited_for(store: semel.Store) -> None:
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with store.lock_rows("t", ["1"]) as rows:
            rows["1"] = "other"
            held.set()
            go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    with pytest.raises(semel.Timeout):
        store.lock_rows("t", ["1"], timeout=0.01).__enter__()
    with pytest.raises(semel.Timeout):
        store.table("t", timeout=0.01).put("1", 1)
    threading.Timer(0.05, go.set).start()
    with store.lock_rows("t", ["1"], timeout=30) as rows:
        assert rows["1"] == "other"
    thread.join()


def test_locks_have_one_holder(clock: semel.Clock) -> None:
    with semel.open("memory:", clock=clock) as store:
        with store.lock("l", lease=30, renew="off", holder="me") as lock:
            assert (lock.lost, lock.is_held) == (False, True)
            first = lock.fence
            with pytest.raises(semel.Busy) as busy:
                store.lock("l").acquire()
            assert (busy.value.holder, busy.value.key) == ("me", (None, "lock", "l"))
            with pytest.raises(semel.InvalidInput, match="this very object"):
                lock.acquire()
            lock.renew()
            lock.release()
        assert not lock.is_held
        with pytest.raises(semel.InvalidInput, match="is not held"):
            lock.fence  # noqa: B018

        with pytest.raises(semel.Lost):
            with store.lock("l", lease=30, renew="off") as lock:
                assert lock.fence > first
                clock.advance(31)
                with store.lock("l"):
                    pass
        with pytest.raises(ZeroDivisionError):
            with store.lock("l", lease=30, renew="off"):
                clock.advance(31)
                with store.lock("l"):
                    pass
                1 / 0  # noqa: B018
        with pytest.raises(semel.InvalidInput, match="no option"):
            store.lock("l", leese=5)


def test_messages_are_handled_once(store: semel.Store) -> None:
    handled: list[int] = []

    def work(tx: semel.Transaction) -> str:
        handled.append(1)
        tx.ledger("wallet").post("anna", "pay:1", 100)
        return "posted"

    done = store.consume("billing", "pay:1", work)
    assert (done, done.value, done.failure) == ("done", "posted", None)
    assert store.consume("billing", "pay:1", work) == "duplicate"
    assert handled == [1]
    assert pickle.loads(pickle.dumps(done)) == "done"

    def poison(tx: semel.Transaction) -> None:
        tx.ledger("wallet").post("anna", "pay:2", 100)
        raise ValueError("poison")

    for _ in range(2):
        with pytest.raises(ValueError, match="poison"):
            store.consume("billing", "pay:2", poison, max_attempts=2)
    rejected = store.consume("billing", "pay:2", poison, max_attempts=2)
    assert rejected == "rejected"
    assert rejected.failure is not None
    assert rejected.failure["code"] == "attempts_exhausted"
    assert "poison" in rejected.failure["message"]
    assert store.ledger("wallet").balance("anna") == 100

    def inner(tx: semel.Transaction) -> None:
        busy = store.consume("billing", "pay:3", poison)
        assert busy == "busy"
        assert busy.retry_after is not None

    assert store.consume("billing", "pay:3", inner) == "done"


def test_what_stops_a_relay_is_raised(store: semel.Store) -> None:
    store.transaction(lambda tx: [tx.emit("t", n, n) for n in range(3)])

    def stopped(id: str, message: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.outbox("t").relay(stopped)
    assert len(store.outbox("t")) == 3
    with pytest.raises(semel.InvalidInput, match="not callable"):
        store.outbox("t").relay(5)


def test_a_relay_tells_what_blocks_it(clock: semel.Clock) -> None:
    with semel.open("memory:", clock=clock) as store:
        store.transaction(lambda tx: [tx.emit("t", n, n) for n in range(3)])

        def send(id: str, message: Any) -> None:
            if message == 1:
                raise ConnectionError("down")

        relayed = store.outbox("t").relay(send)
        assert (relayed, relayed.dead, relayed.blocked) == (1, 0, ("1", 1, "ConnectionError: down"))
        assert store.stats()["blocked_topics"] == {"t": 1}
        clock.advance(60)
        relayed = store.outbox("t").relay(send, dead_after=2)
        assert (relayed, relayed.dead, relayed.blocked) == (1, 1, None)
        assert len(store.outbox("t.dead")) == 1


def test_batches_fail_in_part(store: semel.Store) -> None:
    store.claim("o", "c", payload=1).complete("kept")

    def work(id: str, payload: int) -> str:
        if payload < 0:
            raise ValueError(id)
        if payload == 0:
            raise semel.Retryable(id)
        return id * payload

    items = [("a", 2), ("b", -1), ("c", 1), ("c", 2), ("a", 2), ("d", 0)]
    outcomes = store.run_many("o", items, work, fail_on=ValueError)
    assert [outcome.id for outcome in outcomes] == ["a", "b", "c", "c", "a", "d"]
    assert [outcome.value for outcome in outcomes] == ["aa", None, "kept", None, "aa", None]
    kinds = [type(outcome.error) for outcome in outcomes]
    assert kinds == [type(None), ValueError, type(None), semel.Mismatch, type(None), semel.Retryable]
    assert outcomes[0].ok
    with pytest.raises(ValueError, match="b"):
        outcomes[1].result()
    assert store.claim("o", "b").answer == "mismatch" or store.claim("o", "b").answer == "failed"
    assert store.claim("o", "d").answer == "execute"


def test_a_batch_that_is_interrupted_releases_what_has_not_begun(store: semel.Store) -> None:
    def work(id: str) -> str:
        if id == "2":
            raise KeyboardInterrupt
        return id

    with pytest.raises(KeyboardInterrupt):
        store.run_many("o", ["1", "2", "3"], work)
    assert [store.claim("o", id).answer for id in "123"] == ["replay", "in_doubt", "execute"]


def test_a_batch_that_cannot_be_used_claims_nothing(store: semel.Store) -> None:
    for items in ([("0", 1), ("1", float("nan"))], [("1", 2, 3)], ["0", None]):
        with pytest.raises(semel.InvalidInput):
            store.run_many("o", items, lambda *args: None)
        with pytest.raises(semel.InvalidInput):
            store.claim_many("o", items)
    with pytest.raises(semel.InvalidInput, match="pairs of id and payload"):
        store.run_many("o", ["1"], lambda id: None, payload=5)
    assert len(store) == 0


def test_a_name_that_cannot_be_used_is_told_for_its_item(store: semel.Store) -> None:
    outcomes = store.run_many("o", ["1", "", "2"], lambda id: id)
    assert [outcome.value for outcome in outcomes] == ["1", None, "2"]
    assert isinstance(outcomes[1].error, semel.InvalidInput)
    claims = store.claim_many("o", ["1", ""])
    assert claims[0].answer == "replay"
    assert isinstance(claims[1], semel.InvalidInput)


def test_ids_are_not_given_out_twice(place: pathlib.Path) -> None:
    with semel.open(place) as store:
        snowflakes = [store.ids.snowflake() for _ in range(1000)]
        assert snowflakes == sorted(set(snowflakes))
        assert [store.ids.segment("s") for _ in range(3)] == [1, 2, 3]
        names = [store.ids.uuid7() for _ in range(100)]
        assert names == sorted(set(names))


def test_numbers_that_cannot_be_posted_are_refused(store: semel.Store) -> None:
    ledger = store.ledger("l")
    for delta in (1.5, True, "5", 2**63, None):
        with pytest.raises(semel.InvalidInput):
            ledger.post("a", "1", delta)
    ledger.post("a", "1", 2**63 - 1)
    with pytest.raises(semel.InvalidInput, match="64 bits"):
        ledger.post("a", "2", 1)


def test_edges_that_cannot_be_declared_are_refused(store: semel.Store) -> None:
    for edges, initial in (({"a": "b"}, "a"), ({"a": ["b"]}, "c"), ({"": ["b"]}, ""), ({1: ["b"]}, "b")):
        with pytest.raises(semel.InvalidInput):
            store.machine("m", edges, initial)
    machine = store.machine("m", {"a": ["b"]}, initial="a")
    assert machine.create("1") is None
    assert machine.create("1") == "a"
    machine.fire("1", "a", "b", event="e")
    (transition,) = machine.history("1")
    assert (transition.source, transition.target, transition.event) == ("a", "b", "e")
    assert transition.at.tzinfo is not None
    with pytest.raises(semel.InvalidInput):
        machine.fire("1", "a", "z", event="e")
    assert store.transaction(lambda tx: tx.machine("m", {"a": ["b"]}, "a").state("1")) == "b"


def test_tokens_are_spent_on_one_operation(clock: semel.Clock) -> None:
    with semel.open("memory:", clock=clock) as store:
        token = store.tokens.issue("checkout", ttl="5m", scope="u1")
        refused = store.tokens.claim(token, "checkout", "order.create", scope="u2")
        assert (bool(refused), refused.reason) == (False, "other_scope")
        claim = store.tokens.claim(token, "checkout", "order.create", scope="u1", payload=1)
        assert claim.answer == "execute"
        assert claim.key == ("u1", "order.create", token)
        claim.complete("order 1")
        assert store.tokens.claim(token, "checkout", "order.create", scope="u1", payload=1).result() == "order 1"
        clock.advance("10m")
        late = store.tokens.issue("checkout", ttl=1)
        clock.advance(1)
        assert store.tokens.redeem(late, "checkout").reason == "expired"
        with pytest.raises(semel.InvalidInput):
            store.tokens.issue("checkout", ttl=0)
