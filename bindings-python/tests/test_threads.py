"""Many threads at one store: nothing runs twice, nobody holds the interpreter up, and signals are seen to."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import semel

THREADS = 32


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_nothing_runs_twice(kind: str, place: pathlib.Path) -> None:
    ran: list[int] = []
    with semel.open("memory:" if kind == "memory" else place) as store:
        gate = threading.Barrier(THREADS)

        def worker(_: int) -> list[int]:
            gate.wait()

            def work(n: int) -> Callable[[], int]:
                def run() -> int:
                    ran.append(n)
                    return n

                return run

            return [store.run("o", n, work(n), wait=60) for n in range(50)]

        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(worker, range(THREADS)))
    assert results == [list(range(50))] * THREADS
    assert sorted(ran) == list(range(50))


def test_a_call_that_waits_lets_others_run() -> None:
    with semel.open("memory:") as store:
        held = store.claim("o", "1")
        waiting = threading.Thread(target=lambda: store.claim("o", "1", wait=60))
        waiting.start()
        # If the waiter held the interpreter, this would never be reached.
        held.complete(1)
        waiting.join(30)
        assert not waiting.is_alive()


def test_one_object_is_used_by_many_threads(store: semel.Store) -> None:
    claim = store.claim("o", "1")
    with ThreadPoolExecutor(THREADS) as pool:
        keys = set(pool.map(lambda _: claim.derive_key("k"), range(200)))
        ends = list(pool.map(lambda n: ended(claim, n), range(THREADS)))
    assert len(keys) == 1
    assert sum(ends) == 1


def ended(claim: semel.Claim, n: int) -> bool:
    try:
        claim.complete(n)
    except semel.Lost:
        return False
    return True


INTERRUPTED = """
import semel, signal, os, threading
store = semel.open("memory:")
def elsewhere(call):
    # A thread does not wait for itself: what is waited for is held by another.
    told = []
    thread = threading.Thread(target=lambda: told.append(call())); thread.start(); thread.join()
    return told[0]
held = elsewhere(lambda: store.claim("o", "1"))
{before}
timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.start()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
{after}
"""


@pytest.mark.parametrize(
    ("before", "call", "after"),
    [
        ("", 'store.claim("o", "1", wait=600)', 'held.release(); assert store.claim("o", "1").attempt == 2'),
        ("", 'store.run("o", "1", int, wait=600)', 'held.release(); assert store.claim("o", "1").attempt == 2'),
        ('lock = store.lock("l"); elsewhere(lock.acquire)', 'store.lock("l", wait=600).acquire()', "lock.release()"),
        (
            """
def hold():
    with store.lock_rows("t", ["1"]):
        go.wait()
go = threading.Event()
import time
thread = threading.Thread(target=hold); thread.start()
while len(store) < 2: time.sleep(0.01)
""",
            'store.lock_rows("t", ["1"], timeout=600).__enter__()',
            "go.set(); thread.join()",
        ),
    ],
    ids=["claim", "run", "lock", "rows"],
)
def test_an_interrupt_ends_a_wait(before: str, call: str, after: str) -> None:
    code = INTERRUPTED.format(before=before, call=call, after=after)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (told.stdout, told.returncode) == ("interrupted\n", 0), told.stderr


def test_the_import_starts_no_thread_and_opens_nothing() -> None:
    code = (
        "import os, threading; before = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()\n"
        "import semel, semel.aio\n"
        "after = set(os.listdir('/proc/self/fd')) if before else set()\n"
        "tasks = len(os.listdir('/proc/self/task')) if before else 1\n"
        "print(threading.active_count(), tasks, len(after - before))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stdout == "1 1 0\n", told.stderr


def test_the_plain_import_is_small() -> None:
    code = (
        "import sys, semel; print([name for name in ('asyncio', 'pydantic', 'zoneinfo', 'ssl', 'http') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stdout == "[]\n", told.stderr


def test_an_interpreter_that_ends_takes_no_relaxed_work_along(place: pathlib.Path) -> None:
    code = (
        "import os, semel\n"
        f"store = semel.open({str(place)!r}, durability='relaxed', in_doubt='rerun', commit_interval=0.05)\n"
        "import atexit\n"
        "for n in range(100): store.run('o', n, lambda: n)\n"
        "kept = [store, store.claim]\n"
        "atexit._run_exitfuncs(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with semel.open(place) as store:
        assert len(store) == 100


def test_a_store_that_is_dropped_is_closed(place: pathlib.Path) -> None:
    store = semel.open(place, shared="never")
    store.claim("o", "1").complete(1)
    del store
    with semel.open(place, shared="never") as again:
        assert again.claim("o", "1").result() == 1


def test_signals_of_other_handlers_are_seen_to(store: semel.Store) -> None:
    seen: list[int] = []
    handled = threading.Event()

    def handler(number: int, frame: object) -> None:
        seen.append(number)
        handled.set()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        held: list[semel.Claim] = []
        thread = threading.Thread(target=lambda: held.append(store.claim("o", "1")))
        thread.start()
        thread.join()

        def kill_and_release() -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            handled.wait(30)
            held[0].release()

        threading.Thread(target=kill_and_release).start()
        assert store.claim("o", "1", wait=60).answer == "execute"
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
