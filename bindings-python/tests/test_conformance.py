"""The scenarios that every backend and every language plays: `tests/vectors/conformance.json`, and what `README.md` there says."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import semel

VECTORS = pathlib.Path(__file__).parents[2] / "tests" / "vectors"
SCENARIOS = json.loads((VECTORS / "conformance.json").read_text())["scenarios"]
CAN = {"reopen"}
Step = dict[str, Any]


class RolledBack(Exception):
    """What a scenario fails a transaction or the work of a message with."""


def seconds(ms: Any) -> Any:
    """Times are milliseconds; a lease may be "never", a retain "forever"."""
    return ms if isinstance(ms, str) else ms / 1000


def options(step: Step) -> dict[str, Any]:
    """The options of an operation; null is a payload like any other, and `semel.Json` says so."""
    given: dict[str, Any] = {}
    for name in ("lease", "retain", "remember", "retry_window", "twin_window", "every"):
        if name in step:
            given[name] = seconds(step[name])
    for name in ("scope", "on_twin", "max_attempts", "holder", "renew", "in_doubt"):
        if name in step:
            given[name] = step[name]
    if "payload" in step:
        given["payload"] = semel.Json(json.dumps(step["payload"]))
    return given


def retained(step: Step) -> dict[str, Any]:
    return {"retain": seconds(step["retain"])} if "retain" in step else {}


def named(error: BaseException) -> Step:
    return {"error": type(error).__name__}


def claimed(claim: Any) -> Step:
    if isinstance(claim, semel.Redeem):
        return {"answer": claim.answer, "reason": claim.reason}
    told: Step = {"answer": claim.answer, "replayed": claim.replayed, "attempt": claim.attempt}
    if claim.answer == "execute":
        told["takeover"] = claim.takeover
    elif claim.answer == "replay":
        told["value"] = claim.result()
    elif claim.answer == "failed":
        with pytest.raises(semel.Failed) as failed:
            claim.result()
        told["failure"] = {"code": failed.value.code, "message": failed.value.message}
    elif claim.answer == "busy":
        told["holder"] = claim.holder
    elif claim.answer == "mismatch":
        told["fields"] = list(claim.fields)
    elif claim.answer == "twin":
        told["first_id"] = claim.twin
    return told


def check(step: Step, told: Step, place: str) -> None:
    expected = step.get("expect")
    if expected is None or "error" not in expected:
        assert "error" not in told, f"{place}: {step['do']} told {told}"
    for name, value in (expected or {}).items():
        assert told.get(name) == value, f"{place}: {step['do']} told {told}, which has another {name}"


class Player:
    """Plays one scenario over a store of its own."""

    def __init__(self, place: str, clock: semel.Clock) -> None:
        self.place, self.clock = place, clock
        self.store = self.opened()
        self.tickets: dict[str, semel.Claim] = {}
        self.tokens: dict[str, str] = {}
        self.machines: dict[str, Any] = {}
        self.rows: dict[str, Any] = {}
        self.locks: dict[str, Any] = {}
        self.locked: Any = None

    def opened(self) -> semel.Store:
        return semel.open(self.place, clock=self.clock, sweep_interval=0)

    def play(self, scenario: Step) -> None:
        for at, step in enumerate(scenario["steps"]):
            try:
                told = self.step(step)
            except semel.Error as error:
                told = named(error)
            check(step, told, f"{scenario['name']}, step {at}")

    def step(self, step: Step) -> Step:
        verb: str = step["do"]
        method: Callable[[Step], Step] | None = getattr(self, verb.replace(".", "_"), None)
        if method is not None:
            return method(step)
        return self.store.transaction(lambda tx: self.within(tx, step)) or {}

    # Claims.

    def claim(self, step: Step) -> Step:
        return self.keep(step, self.store.claim(step["operation"], step["id"], **options(step)))

    def keep(self, step: Step, claim: Any) -> Step:
        told = claimed(claim)
        if told["answer"] == "execute":
            self.tickets[step["ticket"]] = claim
        return told

    def complete(self, step: Step) -> Step:
        self.tickets[step["ticket"]].complete(step.get("value"))
        return {}

    def complete_without_result(self, step: Step) -> Step:
        self.tickets[step["ticket"]].complete_without_result()
        return {}

    def fail(self, step: Step) -> Step:
        self.tickets[step["ticket"]].fail({"code": step["code"], "message": step.get("message", "")})
        return {}

    def release(self, step: Step) -> Step:
        self.tickets[step["ticket"]].release()
        return {}

    def renew(self, step: Step) -> Step:
        self.tickets[step["ticket"]].renew()
        return {}

    def doubt(self, step: Step) -> Step:
        self.tickets[step["ticket"]].doubt(step["why"])
        return {}

    def drop(self, step: Step) -> Step:
        del self.tickets[step["ticket"]]
        return {}

    def resolve(self, step: Step) -> Step:
        endings: dict[str | None, dict[str, Any]] = {
            "rerun": {"rerun": True},
            "executed": {"executed": True},
            "error": {"error": {"code": step.get("code"), "message": ""}},
        }
        ending = endings.get(step.get("to"), {"value": step.get("value")})
        return {"answer": self.store.resolve(step["operation"], step["id"], scope=step.get("scope"), **ending)}

    def forget(self, step: Step) -> Step:
        return {"answer": self.store.forget(step["operation"], step["id"], scope=step.get("scope"))}

    def lookup(self, step: Step) -> Step:
        record = self.store.lookup(step["operation"], step["id"], scope=step.get("scope"))
        return {"state": record.state, "attempt": record.attempt} if record else {"state": "absent"}

    def step_pass(self, step: Step) -> Step:
        self.clock.advance(step["ms"] / 1000)
        return {}

    def reopen(self, step: Step) -> Step:
        self.store.close()
        self.tickets.clear()
        self.locks.clear()
        self.locked = None
        self.store = self.opened()
        return {}

    # Schemes.

    def unique_get(self, step: Step) -> Step:
        return {"row": self.store.unique(step["index"]).get(step["id"])}

    def token_issue(self, step: Step) -> Step:
        ttl = step.get("ttl", 0) / 1000
        self.tokens[step["token"]] = self.store.tokens.issue(step["purpose"], ttl, scope=step.get("scope"))
        return {}

    def token_redeem(self, step: Step) -> Step:
        token = self.tokens.get(step["token"], step["token"])
        told = self.store.tokens.redeem(token, step["purpose"], scope=step.get("scope_of_token"))
        assert bool(told) is (told.answer == "redeemed")
        return {"answer": told.answer, "reason": told.reason}

    def token_claim(self, step: Step) -> Step:
        token = self.tokens.get(step["token"], step["token"])
        claim = self.store.tokens.claim(token, step["purpose"], step["operation"], step["id"], **options(step))
        return self.keep(step, claim)

    def machine_declare(self, step: Step) -> Step:
        edges = dict(step["edges"])
        self.machines[step["machine"]] = self.store.machine(step["machine"], edges, step["initial"])
        return {}

    def machine_history(self, step: Step) -> Step:
        return {"events": [one.event for one in self.machines[step["machine"]].history(step["id"])]}

    def table_read(self, step: Step) -> Step:
        row = self.store.table(step["table"]).get(step["id"])
        if row:
            self.rows[step["row"]] = row
        return {"value": row and row.value}

    def table_update(self, step: Step) -> Step:
        told = self.store.table(step["table"]).update(self.rows[step["row"]], step.get("value"), step.get("event"))
        return {"answer": told.answer, "event": told.event, "value": told.row and told.row.value}

    def rows_lock(self, step: Step) -> Step:
        rows = self.store.lock_rows(step["table"], step["ids"], timeout=step.get("timeout", 0) / 1000)
        self.locked = rows.__enter__()
        return {"answer": "locked"}

    def rows_set(self, step: Step) -> Step:
        try:
            self.locked[step["id"]] = step.get("value")
        except KeyError:
            return {"error": "InvalidInput"}
        return {}

    def rows_get(self, step: Step) -> Step:
        try:
            return {"value": self.locked[step["id"]]}
        except KeyError:
            return {"error": "InvalidInput"}

    def rows_commit(self, step: Step) -> Step:
        self.locked.__exit__(None, None, None)
        return {}

    def rows_drop(self, step: Step) -> Step:
        self.locked.__exit__(RolledBack, RolledBack(), None)
        return {}

    def elsewhere(self, step: Step) -> Step:
        """A step of somebody else, on a thread of his own."""
        told: list[Step] = []
        timeout = step.get("timeout", 0) / 1000

        def other() -> None:
            try:
                if step["verb"] == "table.put":
                    self.store.table(step["table"], timeout=timeout).put(step["id"], step.get("value"))
                    told.append({})
                else:
                    with self.store.lock_rows(step["table"], [step["id"]], timeout=timeout):
                        told.append({"answer": "locked"})
            except semel.Error as error:
                told.append(named(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return told[0]

    def lock_acquire(self, step: Step) -> Step:
        given = {name: step[name] for name in ("holder", "renew") if name in step}
        if "lease" in step:
            given["lease"] = seconds(step["lease"])
        lock = self.store.lock(step["name"], **given)
        try:
            lock.acquire()
        except semel.Busy as busy:
            return {"answer": "busy", "holder": busy.holder}
        self.locks[step["lock"]] = lock
        return {"answer": "held"}

    def lock_release(self, step: Step) -> Step:
        self.locks.pop(step["lock"]).release()
        return {}

    def lock_renew(self, step: Step) -> Step:
        self.locks[step["lock"]].renew()
        return {}

    def consume(self, step: Step) -> Step:
        given = {name: step[name] for name in ("max_attempts",) if name in step} | retained(step)

        def work(tx: semel.Transaction) -> None:
            self.steps(tx, step.get("work", []))
            if "error" in step:
                raise semel.Unsupported(step["error"])

        consumed = self.store.consume(step["consumer"], step["message"], work, **given)
        failure = consumed.failure and {name: consumed.failure[name] for name in ("code", "message")}
        return {"answer": str(consumed), "failure": failure}

    def relay(self, step: Step) -> Step:
        sent: list[str] = []

        def send(id: str, message: Any) -> None:
            if id in step.get("refuse", []):
                raise ConnectionError("refused")
            sent.append(id)

        given = {name: step[name] for name in ("limit", "dead_after") if name in step}
        relayed = self.store.outbox(step["topic"]).relay(send, **given)
        assert relayed == len(sent)
        blocked = relayed.blocked and {"id": relayed.blocked[0], "failures": relayed.blocked[1]}
        return {"sent": sent, "dead": relayed.dead, "blocked": blocked}

    def tick(self, step: Step) -> Step:
        return {"due": self.store.tick(step["name"], step.get("every", 0) / 1000)}

    def segment(self, step: Step) -> Step:
        return {"number": self.store.ids.segment(step["sequence"])}

    # Transactions.

    def transaction(self, step: Step) -> Step:
        def work(tx: semel.Transaction) -> None:
            self.steps(tx, step["steps"])
            if "fail" in step:
                raise RolledBack

        try:
            self.store.transaction(work)
        except RolledBack:
            return {"answer": "rolled_back"}
        return {"answer": "committed"}

    def steps(self, tx: semel.Transaction, steps: list[Step]) -> None:
        for step in steps:
            try:
                told = self.within(tx, step)
            except semel.Error as error:
                check(step, named(error), "within a transaction")
                raise
            check(step, told, "within a transaction")

    def within(self, tx: semel.Transaction, step: Step) -> Step:
        verb, id = step["do"], step.get("id")
        if verb == "unique.insert":
            inserted = tx.unique(step["index"], **retained(step)).insert(id, step.get("row"))
            return {"answer": inserted.answer, "row": inserted.row}
        if verb.startswith("machine."):
            machine = tx.machine(self.machines[step["machine"]])
            if verb == "machine.fire":
                fired = machine.fire(id, step["from"], step["to"], step["event"])
                return {"answer": fired.answer, "event": fired.event, "state": fired.state}
            return {"state": machine.create(id) if verb == "machine.create" else machine.state(id)}
        if verb.startswith("table."):
            table = tx.table(step["table"], **retained(step))
            if verb == "table.put":
                table.put(id, step.get("value"))
                return {}
            if verb == "table.delete":
                return {"there": table.delete(id)}
            row = table.get(id)
            return {"value": row and row.value}
        if verb == "ledger.post":
            ledger = tx.ledger(step["ledger"], **retained(step))
            posted = ledger.post(step["account"], step["biz_no"], step["delta"], step.get("floor"))
            return {"answer": posted.answer, "balance": posted.balance, "delta": posted.delta}
        if verb == "ledger.balance":
            return {"balance": tx.ledger(step["ledger"]).balance(step["account"])}
        if verb == "mark":
            return {"first": tx.mark(step["consumer"], step["message"])}
        if verb == "emit":
            tx.emit(step["topic"], id, step.get("message"))
            return {}
        if verb == "tx.complete":
            tx.complete(self.tickets[step["ticket"]], step.get("value"))
            return {}
        raise AssertionError(f"the verb {verb!r} is unknown")


setattr(Player, "pass", Player.step_pass)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_scenario(scenario: Step, kind: str, place: pathlib.Path, clock: semel.Clock) -> None:
    needs = set(scenario.get("needs", []))
    assert needs <= CAN
    if kind == "memory" and needs:
        pytest.skip("a store in memory keeps nothing over a reopening")
    player = Player("memory:" if kind == "memory" else str(place), clock)
    player.play(scenario)
    player.store.close()
