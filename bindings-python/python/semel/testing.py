"""For tests: a store and a clock as fixtures of pytest, and a proof that a function is idempotent.

Installed with the package, the fixtures ``semel_clock`` and ``semel_store`` are there for pytest without a further line. The
proof runs a function in every way in which it is asked for again in real life:

>>> from semel.testing import assert_idempotent
>>> done = []
>>> import semel
>>> store = semel.open("memory:")
>>> def pay(key):
...     return store.run("order.pay", key, lambda: done.append(key))
>>> assert_idempotent(pay, probe=done.count, kill=False)
>>> assert_idempotent(done.append, probe=done.count, kill=False)
Traceback (most recent call last):
...
AssertionError: called again one after the other, it had another effect: 1 after the first call, 2 after the second
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import Busy, InDoubt
from ._native import Clock
from ._store import Store, open

__all__ = ["assert_idempotent"]

#: How long an attempt that was killed may hold its key, in seconds.
_HELD_SECONDS = 60.0
#: The most points at which a child is killed; a function that calls the store more often than that is not gone through.
_MAX_KILLS = 200
#: What a child that was not killed ends with, and one in which the function raised.
_ENDED, _RAISED = 0, 3


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def semel_clock() -> Clock:
        """A clock that stands still until it is told to move: ``semel_clock.advance("61m")``."""
        return Clock()

    @pytest.fixture
    def semel_store(semel_clock: Clock) -> Iterator[Store]:
        """A store in memory, on the clock ``semel_clock``."""
        with open("memory:", clock=semel_clock) as store:
            yield store


def assert_idempotent(
    fn: Callable[[str], Any],
    *,
    probe: Callable[[str], Any],
    repeats: int = 3,
    parallel: int = 8,
    kill: bool = True,
) -> None:
    """Proves that ``fn(key)`` takes effect once for each key, however it is asked for again.

    ``probe(key)`` tells the effect of the operation under this key: how many rows there are, the balance; a value that is equal
    for equal effects, whatever the key. Each experiment has keys of its own:

    - it is called again, one after the other (``repeats``): equal results, one effect;
    - it is called by many threads at once (``parallel``): one effect, and ``semel.Busy`` is no fault;
    - with ``kill``, a child of this process is killed by SIGKILL where each call of the store in it begins and ends, and the work
      within, and then it is called here: one effect; or ``semel.InDoubt``, and at most one.

    For ``kill`` the store has to be a directory, and the effect outside of the process: in a file, in a database. It forks, and
    so is for Unix, and for tests in which no other thread runs. A key that a killed child holds is free again when its lease
    ends: give the store calls of tests a short one.

    Raises AssertionError, which says by what the function was found out.
    """
    before, effect = _in_a_row(fn, probe, repeats)
    _at_once(fn, probe, parallel, effect)
    if kill:
        _killed(fn, probe, before, effect)


def _key(experiment: str) -> str:
    return f"{experiment}-{uuid.uuid4()}"


def _in_a_row(fn: Callable[[str], Any], probe: Callable[[str], Any], repeats: int) -> tuple[Any, Any]:
    """The effect of no call, and that of one."""
    key = _key("repeat")
    before = probe(key)
    first = fn(key)
    effect = probe(key)
    for number in range(2, repeats + 1):
        again = fn(key)
        after = probe(key)
        if after != effect:
            raise AssertionError(
                f"called again one after the other, it had another effect: {effect!r} after the first call, {after!r} after the "
                f"{_th(number)}"
            )
        if again != first:
            raise AssertionError(
                f"called again one after the other, it gave another result: {first!r} at the first call, {again!r} at the {_th(number)}"
            )
    if before == effect:
        raise AssertionError(f"the probe tells {effect!r} before the first call and after it; it has to tell the effect")
    return before, effect


def _th(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _at_once(fn: Callable[[str], Any], probe: Callable[[str], Any], parallel: int, effect: Any) -> None:
    key, told, errors = _key("parallel"), [], []
    together = threading.Barrier(parallel)

    def call() -> None:
        together.wait()
        try:
            told.append(fn(key))
        except Busy:
            pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(parallel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise AssertionError(f"called by {parallel} threads at once, it raised {errors[0]!r}") from errors[0]
    after = probe(key)
    if after != effect:
        raise AssertionError(f"called by {parallel} threads at once, it had another effect: {after!r} instead of {effect!r}")
    if any(result != told[0] for result in told):
        raise AssertionError(f"called by {parallel} threads at once, it gave different results: {told!r}")


def _killed(fn: Callable[[str], Any], probe: Callable[[str], Any], before: Any, effect: Any) -> None:
    for point in range(_MAX_KILLS):
        key = _key(f"kill-{point}")
        ended = _child(fn, key, point)
        when = f"killed at point {point + 1} of its calls of the store and called again"
        if ended == _RAISED:
            raise AssertionError("in a child of this process it raised; the traceback is above")
        try:
            _until_free(fn, key)
        except InDoubt:
            after = probe(key)
            if after not in (before, effect):
                raise AssertionError(
                    f"{when}, it is in doubt, and had another effect: {after!r}, not {before!r} or {effect!r}"
                ) from None
        else:
            after = probe(key)
            if after != effect:
                raise AssertionError(f"{when}, it had another effect: {after!r} instead of {effect!r}")
        if ended == _ENDED:
            if point == 0:
                raise AssertionError("it calls no store of semel: there is no point at which to kill it; say kill=False")
            return


def _until_free(fn: Callable[[str], Any], key: str) -> Any:
    until = time.monotonic() + _HELD_SECONDS
    while True:
        try:
            return fn(key)
        except Busy as busy:
            if time.monotonic() > until:
                raise
            time.sleep(min(busy.retry_after or 0.1, 0.5))


def _child(fn: Callable[[str], Any], key: str, point: int) -> int:
    """Calls it in a child that is killed at a point: how the child ended."""
    with warnings.catch_warnings():
        # Of threads that run beside; the docstring has it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = _RAISED
        try:
            watch = _Watch(point)
            sys.setprofile(watch)
            try:
                fn(key)
            finally:
                sys.setprofile(None)
            status = _ENDED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Watch:
    """Kills this process at a point: where a function of the store, or what that calls, begins or ends."""

    def __init__(self, point: int) -> None:
        self.left = point
        #: For each call of the store that runs, how deep the calls of Python within it are.
        self.depths: list[int] = []

    def __call__(self, _frame: Any, event: str, called: Any) -> None:
        depths = self.depths
        if event == "c_call":
            if _is_of_a_store(called):
                depths.append(0)
                self.point()
        elif event in ("c_return", "c_exception"):
            if _is_of_a_store(called):
                depths.pop()
                self.point()
        elif depths:
            depths[-1] += 1 if event == "call" else -1
            if depths[-1] == (1 if event == "call" else 0):
                self.point()

    def point(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def _is_of_a_store(called: Any) -> bool:
    """Whether a function of the native half was called."""
    if getattr(called, "__module__", None) == "semel._native":
        return True
    return type(getattr(called, "__self__", None)).__module__ in ("semel._native", "semel", "semel._store")
