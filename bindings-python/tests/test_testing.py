"""What semel gives to tests: its fixtures, and a proof that finds out functions which are not idempotent."""

from __future__ import annotations

import pathlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
import semel
from semel.sql import IdempotencyTable
from semel.testing import assert_idempotent, semel_clock, semel_store

__all__ = ["semel_clock", "semel_store"]


class Effects:
    """Effects in a file, one line for each."""

    def __init__(self, place: pathlib.Path) -> None:
        self.place = place

    def take(self, key: str) -> str:
        with open(self.place, "a") as file:
            file.write(f"{key}\n")
        return "done"

    def count(self, key: str) -> int:
        return self.place.read_text().splitlines().count(key) if self.place.exists() else 0


@pytest.fixture
def effects(tmp_path: pathlib.Path) -> Effects:
    return Effects(tmp_path / "effects")


def test_the_fixtures(semel_store: semel.Store, semel_clock: semel.Clock) -> None:
    assert semel_store.run("o", "A", lambda: 1, retain="1h") == 1
    assert semel_store.run("o", "A", lambda: 2, retain="1h") == 1
    semel_clock.advance("61m")
    assert semel_store.run("o", "A", lambda: 2) == 2


def test_what_is_guarded_passes(place: pathlib.Path, effects: Effects) -> None:
    with semel.open(place) as store:
        assert_idempotent(lambda key: store.run("o", key, lambda: effects.take(key), lease="500ms"), probe=effects.count)


def test_what_may_rerun_has_a_second_effect_when_it_is_killed(place: pathlib.Path, effects: Effects) -> None:
    with semel.open(place, in_doubt="rerun") as store:
        with pytest.raises(AssertionError, match=r"killed at point \d+ .* had another effect: 2 instead of 1"):
            assert_idempotent(lambda key: store.run("o", key, lambda: effects.take(key), lease="500ms"), probe=effects.count)


def test_a_mark_in_another_transaction_is_found_out(place: pathlib.Path, effects: Effects) -> None:
    """Looks, does, and marks then: the oldest mistake."""
    with semel.open(place) as store:

        def fn(key: str) -> str:
            rows = store.unique("done")
            if rows.get(key) is None:
                effects.take(key)
                rows.insert(key, "done")
            return "done"

        with pytest.raises(AssertionError, match="another effect"):
            assert_idempotent(fn, probe=effects.count)


def planted(effects: Effects) -> dict[str, tuple[Callable[[str], Any], str]]:
    lock, seen, calls = threading.Lock(), set[str](), [0]

    def racy(key: str) -> None:
        if key not in seen:
            together.wait()
            effects.take(key)
        seen.add(key)

    def other_result(key: str) -> int:
        with lock:
            calls[0] += 1
            if key not in seen:
                seen.add(key)
                effects.take(key)
            return calls[0]

    def raises_at_once(key: str) -> None:
        if key.startswith("parallel"):
            raise KeyError(key)
        if key not in seen:
            seen.add(key)
            effects.take(key)

    together = threading.Barrier(1)
    return {
        "no guard": (effects.take, "called again one after the other, it had another effect: 1 .* 2 after the second"),
        "no effect": (lambda key: None, "the probe tells 0 before the first call and after it"),
        "other result": (other_result, "gave another result"),
        "raises": (raises_at_once, "threads at once, it raised KeyError"),
        "no store": (
            lambda key: None if key in seen else (seen.add(key), effects.take(key), None)[2],
            "calls no store|another effect",
        ),
    }


@pytest.mark.parametrize("name", ["no guard", "no effect", "other result", "raises", "no store"])
def test_planted_faults_are_found(effects: Effects, name: str) -> None:
    fn, told = planted(effects)[name]
    with pytest.raises(AssertionError, match=told):
        assert_idempotent(fn, probe=effects.count)


def test_a_race_is_found(effects: Effects) -> None:
    together, seen = threading.Barrier(8), set[str]()

    def racy(key: str) -> None:
        if key not in seen:
            if key.startswith("parallel"):
                together.wait(30)
            effects.take(key)
            seen.add(key)

    with pytest.raises(AssertionError, match="8 threads at once, it had another effect: 8 instead of 1"):
        assert_idempotent(racy, probe=effects.count, parallel=8)


def test_an_exception_in_the_child_is_told(place: pathlib.Path, effects: Effects, capfd: pytest.CaptureFixture[str]) -> None:
    with semel.open(place) as store:

        def fn(key: str) -> Any:
            if key.startswith("kill"):
                raise OSError("only here")
            return store.run("o", key, lambda: effects.take(key))

        with pytest.raises(AssertionError, match="in a child"):
            assert_idempotent(fn, probe=effects.count)
    assert "only here" in capfd.readouterr().err


def test_a_transaction_of_sql_passes(tmp_path: pathlib.Path) -> None:
    table = IdempotencyTable()
    with sqlite3.connect(tmp_path / "db") as first:
        table.create(first)
        first.execute("CREATE TABLE done (key TEXT)")
    first.close()

    def fn(key: str) -> Any:
        connection = sqlite3.connect(tmp_path / "db", timeout=30)
        try:
            connection.isolation_level = None
            connection.execute("BEGIN IMMEDIATE")
            told = table.run(connection, "o", key, lambda _: connection.execute("INSERT INTO done VALUES (?)", (key,)).rowcount)
            connection.execute("COMMIT")
            return told
        finally:
            connection.close()

    def probe(key: str) -> int:
        connection = sqlite3.connect(tmp_path / "db", timeout=30)
        try:
            return int(connection.execute("SELECT count(*) FROM done WHERE key = ?", (key,)).fetchone()[0])
        finally:
            connection.close()

    assert_idempotent(fn, probe=probe, kill=False)
