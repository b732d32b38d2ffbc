"""The verbs: claim, complete, fail, release, renew, lookup, forget, resolve and run."""

from __future__ import annotations

import datetime as dt
import pathlib
import threading
import types

import pytest
import semel


def test_a_claim_is_executed_once_and_replayed(store: semel.Store) -> None:
    first = store.claim("order.create", "ORDER_1", scope="t7", payload={"amount": 100})
    assert (first.answer, first.replayed, first.attempt) == ("execute", False, 1)
    assert first.key == ("t7", "order.create", "ORDER_1")
    assert first.fence
    assert first.fence > 0
    assert first.complete({"id": 1}) == {"id": 1}
    again = store.claim("order.create", "ORDER_1", scope="t7", payload={"amount": 100.0})
    assert (again.answer, again.replayed, again.attempt) == ("replay", True, 1)
    assert again.result() == {"id": 1}
    assert again.executed_at.tzinfo is dt.timezone.utc


def test_another_scope_is_another_operation(store: semel.Store) -> None:
    store.claim("o", "1", scope="a").complete()
    assert store.claim("o", "1", scope="b").answer == "execute"
    held = store.claim("o", "1")
    assert held.answer == "execute"
    assert store.claim("o", "1", scope=semel.GLOBAL).answer == "busy"


@pytest.mark.parametrize("id", [7, "7"])
def test_an_integer_is_its_text(store: semel.Store, id: object) -> None:
    store.claim("o", 7).complete("seven")
    assert store.claim("o", id).result() == "seven"


def test_each_answer_that_is_no_result_raises_its_exception(store: semel.Store, clock: semel.Clock) -> None:
    running = store.claim("o", "busy", holder="node-3")
    with pytest.raises(semel.Busy) as busy:
        store.run("o", "busy", lambda: None)
    assert (busy.value.holder, busy.value.attempt) == ("node-3", 1)
    assert busy.value.retry_after
    assert busy.value.retry_after > 0
    running.release()

    store.claim("o", "mismatch", payload={"a": 1, "b": 2}).complete()
    with pytest.raises(semel.Mismatch) as mismatch:
        store.run("o", "mismatch", lambda: None, payload={"a": 1, "b": 3})
    assert mismatch.value.fields == ("b",)

    store.claim("o", "doubt").doubt("the gateway timed out")
    with pytest.raises(semel.InDoubt, match=r"store\.resolve\('?\"?o") as doubt:
        store.run("o", "doubt", lambda: None)
    assert "the gateway timed out" in doubt.value.doubt
    assert doubt.value.fence

    store.claim("o", "gone").complete_without_result()
    with pytest.raises(semel.Gone):
        store.run("o", "gone", lambda: None)

    store.claim("o", "twin-1", payload=1, twin_window=60).complete()
    with pytest.raises(semel.Twin) as twin:
        store.run("o", "twin-2", lambda: None, payload=1, twin_window=60, on_twin="refuse")
    assert twin.value.first_id == "twin-1"

    store.claim("o", "failed").fail(types.MappingProxyType({"code": "card_declined", "message": "no"}))
    with pytest.raises(semel.Failed, match="no") as failed:
        store.run("o", "failed", lambda: None)
    assert failed.value.code == "card_declined"


def test_answers_of_a_claim_are_values(store: semel.Store) -> None:
    store.claim("o", "1").fail(semel.Terminal("declined", code="card"))
    claim = store.claim("o", "1")
    assert claim.answer == "failed"
    with pytest.raises(semel.Failed) as failed:
        claim.result()
    assert (failed.value.code, failed.value.kind, str(failed.value)) == ("card", "Terminal", "declined")


def test_what_a_ticket_cannot_do_is_told(store: semel.Store) -> None:
    claim = store.claim("o", "1")
    with pytest.raises(semel.InvalidInput, match="no result yet"):
        claim.result()
    claim.complete(1)
    with pytest.raises(semel.Lost):
        claim.complete(1)
    with pytest.raises(semel.InvalidInput, match="no ticket"):
        store.claim("o", "1").complete(2)


def test_a_dropped_ticket_leaves_a_doubt(store: semel.Store) -> None:
    store.claim("o", "1")
    assert store.claim("o", "1").answer == "in_doubt"
    (record,) = store.unresolved()
    assert (record.state, record.id) == ("in_doubt", "1")
    assert record.doubt
    assert store.resolve("o", "1", fence=record.fence - 1, rerun=True) == "not_in_doubt"
    assert store.resolve("o", "1", fence=record.fence, rerun=True) == "resolved"
    assert store.claim("o", "1").attempt == 2


@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        ({"value": None}, "replay"),
        ({"executed": True}, "gone"),
        ({"error": ValueError("no")}, "failed"),
        ({"rerun": True}, "execute"),
    ],
)
def test_a_doubt_is_resolved_by_one_ending(store: semel.Store, ending: dict[str, object], answer: str) -> None:
    store.claim("o", "1").doubt("why")
    assert store.resolve("o", "1", **ending) == "resolved"
    assert store.claim("o", "1").answer == answer
    assert store.resolve("o", "2", rerun=True) == "absent"


def test_a_resolution_says_one_thing(store: semel.Store) -> None:
    for ending in ({}, {"value": 1, "rerun": True}, {"valeu": 1}):
        with pytest.raises(semel.InvalidInput):
            store.resolve("o", "1", **ending)


def test_what_the_work_raises_says_what_is_known(store: semel.Store) -> None:
    def raises(error: Exception) -> object:
        def work() -> None:
            raise error

        return work

    cases: list[tuple[Exception, str]] = [
        (semel.Retryable("line busy"), "execute"),
        (ConnectionRefusedError(), "execute"),
        (semel.Terminal("declined"), "failed"),
        (KeyError("k"), "failed"),
        (RuntimeError("?"), "in_doubt"),
    ]
    for number, (error, answer) in enumerate(cases):
        with pytest.raises(type(error)) as raised:
            store.run("o", number, raises(error), retry_on=ConnectionError, fail_on=(LookupError,))
        assert raised.value is error
        assert store.claim("o", number).answer == answer, error


def test_the_nearest_class_decides(store: semel.Store) -> None:
    def refused() -> None:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        store.run("o", "1", refused, retry_on=OSError, fail_on=ConnectionRefusedError)
    assert store.claim("o", "1").answer == "failed"
    with pytest.raises(ConnectionRefusedError):
        store.run("o", "2", refused, retry_on=ConnectionRefusedError, fail_on=OSError)
    assert store.claim("o", "2").answer == "execute"


def test_an_exception_that_is_no_error_leaves_a_doubt(store: semel.Store) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run("o", "1", interrupted)
    assert store.claim("o", "1").answer == "in_doubt"


def test_the_work_gets_its_ticket_and_code_below_finds_it(store: semel.Store) -> None:
    def below() -> str:
        ticket = semel.current()
        assert ticket is not None
        return ticket.derive_key("charge")

    def work(ticket: semel.Claim) -> tuple[str, str]:
        return ticket.derive_key("charge"), below()

    one, two = store.run("o", "1", work, pass_ticket=True)
    assert one == two
    assert len(one) == 32
    assert semel.current() is None


def test_running_its_own_key_is_busy_at_once(store: semel.Store) -> None:
    def work() -> str:
        return store.claim("o", "1", wait=30).answer

    assert store.run("o", "1", work) == "busy"


def test_a_result_that_cannot_be_kept_is_executed_all_the_same(store: semel.Store) -> None:
    thing = object()
    with pytest.warns(semel.ResultNotKept, match="cannot be written"):
        assert store.run("o", "1", lambda: thing) is thing
    assert store.claim("o", "1").answer == "gone"
    assert store.stats()["operations"]["o"]["results_not_kept"] == 1
    with semel.open("memory:", max_result_bytes=100) as small:
        with pytest.warns(semel.ResultNotKept, match="the store keeps 100"):
            assert small.run("o", "1", lambda: "x" * 200) == "x" * 200
        assert small.claim("o", "1").answer == "gone"


def test_steps_are_done_once(store: semel.Store) -> None:
    charges = []

    def charge() -> str:
        charges.append(1)
        return "receipt"

    for attempt in (1, 2):
        claim = store.claim("o", "1")
        assert claim.step("charge", charge) == "receipt"
        if attempt == 1:
            claim.release()
        else:
            claim.complete()
    assert charges == [1]

    claim = store.claim("o", "2")
    with pytest.raises(ValueError, match="no"):
        claim.step("charge", lambda: int("no"), fail_on=ValueError)
    assert claim.step("charge", charge) == "receipt"
    with pytest.raises(ZeroDivisionError):
        claim.step("send", lambda: 1 / 0)
    claim.release()
    assert store.claim("o", "2").answer == "in_doubt"


def test_lost_tickets_are_told(clock: semel.Clock) -> None:
    told: list[str] = []
    heard = threading.Event()

    def on_lost(why: str) -> None:
        told.append(why)
        heard.set()

    with semel.open("memory:", clock=clock, in_doubt="rerun") as store:
        first = store.claim("o", "1", lease=30, renew="off", on_lost=on_lost)
        clock.advance(31)
        second = store.claim("o", "1")
        assert (second.answer, second.attempt, second.takeover) == ("execute", 2, True)
        assert second.fence > first.fence
        with pytest.raises(semel.Lost):
            first.complete("late")
        assert first.lost
        assert heard.wait(10)
        assert told
        second.complete("second")
        assert store.claim("o", "1").result() == "second"


def test_confirm_decides_what_became_of_an_attempt(store: semel.Store) -> None:
    asked = []

    def confirm(record: semel.Record) -> object:
        asked.append(record.id)
        return {"1": semel.Done({"receipt": 7}), "2": semel.NOT_DONE, "3": semel.STILL}[record.id]

    for id, answer in (("1", "replay"), ("2", "execute"), ("3", "in_doubt")):
        store.claim("o", id, in_doubt="ask").doubt("why")
        claim = store.claim("o", id, in_doubt="ask", confirm=confirm)
        assert claim.answer == answer
        if answer == "replay":
            assert claim.result() == {"receipt": 7}
    assert asked == ["1", "2", "3"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_confirm_that_fails_leaves_the_doubt(store: semel.Store) -> None:
    store.claim("o", "1", in_doubt="ask").doubt("why")
    assert store.claim("o", "1", in_doubt="ask", confirm=lambda record: 1 / 0).answer == "in_doubt"
    assert store.claim("o", "1", in_doubt="ask", confirm=lambda record: True).answer == "in_doubt"


def test_time_ends_what_is_kept(clock: semel.Clock) -> None:
    with semel.open("memory:", clock=clock, sweep_interval=0) as store:
        store.claim("o", "1", retain="1h", remember=dt.timedelta(hours=1)).complete(1)
        clock.advance("61m")
        assert store.claim("o", "1").answer == "gone"
        clock.advance(3600)
        assert store.lookup("o", "1") is None
        assert store.sweep() == 1


def test_a_record_tells_what_is_known(store: semel.Store) -> None:
    assert store.lookup("o", "1") is None
    claim = store.claim("o", "1", scope="t", payload={"b": 1, "a": 2}, holder="me", lease="never")
    claim.step("one", lambda: 1)
    record = store.lookup("o", "1", scope="t")
    assert record is not None
    assert (record.state, record.holder, record.fields, record.steps) == ("running", "me", ("a", "b"), {"one": True})
    assert (record.lease_until, record.has_value, record.value, record.failure) == (None, False, None, None)
    claim.fail(ValueError("no"))
    record = store.lookup("o", "1", scope="t")
    assert record is not None
    assert record.failure == {"code": "error", "kind": "ValueError", "message": "no"}
    assert record.finished_at is not None
    assert store.forget("o", "1", scope="t") == "forgotten"
    assert store.forget("o", "1", scope="t") == "absent"
    running = store.claim("o", "1", scope="t")
    assert store.forget("o", "1", scope="t") == "busy"
    running.release()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"lease": 0}, "lease is zero"),
        ({"lease": -1}, "backwards"),
        ({"lease": float("nan")}, "backwards"),
        ({"lease": "5 parsecs"}, "lease: "),
        ({"lease": True}, "give seconds"),
        ({"lease": "never", "in_doubt": "rerun"}, "hold alone"),
        ({"retain": "never"}, "forever"),
        ({"in_doubt": "maybe"}, "it is one of"),
        ({"max_attempts": 0}, "max_attempts is zero"),
        ({"max_attempts": -1}, "no whole number"),
        ({"leas": 3}, "there is no option"),
        ({"scope": 5}, "scope is a"),
        ({"scope": " "}, "scope is blank"),
        ({"payload": float("nan")}, "NaN"),
        ({"payload": object()}, "cannot be written"),
        ({"confirm": 3}, "not callable"),
        ({"retry_window": "2d"}, "retry_window"),
        ({"twin_window": 5}, "payload"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_touched(
    store: semel.Store, options: dict[str, object], fault: str
) -> None:
    with pytest.raises(semel.InvalidInput, match=fault):
        store.claim("o", "1", **options)
    assert len(store) == 0


@pytest.mark.parametrize(
    ("operation", "id"), [("", "1"), ("o", ""), ("o", None), ("o", 1.5), ("o", True), ("o\n", "1"), ("o", "x" * 256)]
)
def test_names_that_cannot_be_used_are_refused(store: semel.Store, operation: str, id: object) -> None:
    with pytest.raises(semel.InvalidInput):
        store.claim(operation, id)


def test_none_is_not_given(store: semel.Store) -> None:
    assert store.claim("o", "1", lease=None, payload=None, scope=None, confirm=None).answer == "execute"


def test_a_closed_store_says_so(place: pathlib.Path) -> None:
    store = semel.open(place)
    claim = store.claim("o", "1")
    store.close()
    store.close()
    with pytest.raises(semel.Closed):
        store.claim("o", "2")
    with pytest.raises(semel.StoreError):
        claim.complete()


def test_what_is_on_disk_is_there_again(place: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with semel.open(place) as store:
        store.run("o", "1", lambda: (1, "x"))
        assert store.verify()["problems"] == []
        copied = store.backup(tmp_path / "copy")
        assert copied["blocks"] > 0
        store.sync()
    with semel.open(str(place)) as store:
        assert store.claim("o", "1").result() == (1, "x")
        assert len(store) == 1
        assert store.is_owner
        assert 'semel_claims_total{operation="o",answer="replay"} 1' in store.metrics()


@pytest.mark.parametrize(
    ("place", "options", "fault"),
    [
        ("", {}, "blank"),
        ("postgres://x", {}, "unknown"),
        (5, {}, "give a text"),
        ("memory:", {"durability": "safe"}, "it is one of"),
        ("memory:", {"cache": 5}, "no option"),
        ("memory:", {"max_records": 0}, "max_records is zero"),
        ("memory:", {"commit_interval": 1}, "above 50 ms"),
    ],
)
def test_a_store_that_cannot_be_opened_says_why(place: object, options: dict[str, object], fault: str) -> None:
    with pytest.raises(semel.InvalidInput, match=fault):
        semel.open(place, **options)


def test_another_build_may_lack_a_backend() -> None:
    with pytest.raises((semel.Unsupported, semel.Unavailable)):
        semel.open("redis://127.0.0.1:1")


def test_stats_count_what_was_answered(store: semel.Store) -> None:
    for _ in range(4):
        store.run("o", "1", lambda: 1)
    counted = store.stats()
    operation = counted["operations"]["o"]
    assert (operation["claims"], operation["executed"], operation["replayed"]) == (4, 1, 3)
    assert operation["interception_rate"] == 0.75
    assert counted["totals"]["claims"] == 4
    assert counted["records"] == 1
