"""How fast the Python package is, beside what a Python service would write by hand: one run, ratios at the end.

    pip install ./bindings-python            # a release build; diskcache is measured beside it when it is installed
    python benches/python.py
"""

from __future__ import annotations

import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import semel

ROUNDS = 5
REPLAYS = 20_000
FIRSTS = 2_000
SYNCED = 300
THREADS = 8


def median_us(calls: int, call: Callable[[int], object]) -> float:
    """Microseconds a call, the median of several rounds; each call has a number of its own."""
    times = []
    for round in range(ROUNDS):
        began = time.perf_counter()
        for n in range(round * calls, (round + 1) * calls):
            call(n)
        times.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(times)


class ByHand:
    """Idempotency as it is written by hand: a row that is inserted, and updated with the result."""

    def __init__(self, path: pathlib.Path, synchronous: str) -> None:
        self.path, self.synchronous = path, synchronous
        self.db = self.connect()
        self.db.execute("CREATE TABLE IF NOT EXISTS k (op TEXT, id TEXT, result TEXT, PRIMARY KEY (op, id)) WITHOUT ROWID")

    def connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self.synchronous}")
        return db

    def first(self, db: sqlite3.Connection, id: str) -> None:
        db.execute("INSERT INTO k VALUES ('o', ?, NULL)", (id,))
        db.execute("UPDATE k SET result = ? WHERE op = 'o' AND id = ?", (json.dumps({"id": 1}), id))

    def replay(self, id: str) -> object:
        return json.loads(self.db.execute("SELECT result FROM k WHERE op = 'o' AND id = ?", (id,)).fetchone()[0])


def together(calls: int, worker: Callable[[int], Callable[[int], object]]) -> float:
    """Calls a second of many threads."""
    gate = threading.Barrier(THREADS + 1)

    def run(thread: int) -> None:
        call = worker(thread)
        gate.wait()
        for n in range(calls):
            call(n)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return THREADS * calls / (time.perf_counter() - began)


def import_ms(module: str) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        times.append((time.perf_counter() - began) * 1e3)
    return min(times)


def main() -> None:
    folder = pathlib.Path(tempfile.mkdtemp())
    normal, full = ByHand(folder / "normal.db", "NORMAL"), ByHand(folder / "full.db", "FULL")
    relaxed = semel.open(folder / "relaxed", durability="relaxed", in_doubt="rerun")
    synced = semel.open(folder / "synced")
    work = lambda: {"id": 1}  # noqa: E731

    relaxed.run("o", "hot", work)
    normal.first(normal.db, "hot")

    @relaxed.idempotent("d", key="order_no")
    def decorated(order_no: str, amount: int) -> dict[str, int]:
        return {"id": 1}

    decorated("hot", 100)
    figures = {
        "replay": (median_us(REPLAYS, lambda n: relaxed.run("o", "hot", work)), median_us(REPLAYS, lambda n: normal.replay("hot"))),
        "replay, decorator": (median_us(REPLAYS, lambda n: decorated("hot", 100)), median_us(REPLAYS, lambda n: normal.replay("hot"))),
        "first, relaxed | NORMAL": (
            median_us(FIRSTS, lambda n: relaxed.run("o", f"r{n}", work)),
            median_us(FIRSTS, lambda n: normal.first(normal.db, f"r{n}")),
        ),
        "first, sync | FULL": (
            median_us(SYNCED, lambda n: synced.run("o", f"s{n}", work)),
            median_us(SYNCED, lambda n: full.first(full.db, f"s{n}")),
        ),
    }
    print(f"{'':28} {'semel us':>10} {'sqlite3 us':>10} {'times':>7}")
    for name, (ours, theirs) in figures.items():
        print(f"{name:28} {ours:10.1f} {theirs:10.1f} {theirs / ours:7.1f}")

    def by_hand(thread: int) -> Callable[[int], object]:
        db = full.connect()
        return lambda n: full.first(db, f"t{thread}-{n}")

    rates = {
        "semel": together(SYNCED, lambda thread: lambda n: synced.run("o", f"t{thread}-{n}", work)),
        "sqlite3 FULL": together(SYNCED // 3, by_hand),
    }
    try:
        import diskcache
    except ImportError:
        pass
    else:
        cache = diskcache.Cache(folder / "cache", sqlite_synchronous=2)
        rates["diskcache"] = together(SYNCED // 3, lambda thread: lambda n: cache.add(f"t{thread}-{n}", {"id": 1}))
    print(f"\n{THREADS} threads, sync, first calls a second")
    for name, rate in rates.items():
        print(f"{name:28} {rate:10.0f} {rate / rates['semel']:7.2f}")

    bare = import_ms("sys")
    ours, theirs = import_ms("semel") - bare, import_ms("sqlite3") - bare
    print(f"\nimport: semel {ours:.1f} ms, sqlite3 {theirs:.1f} ms")


if __name__ == "__main__":
    main()
