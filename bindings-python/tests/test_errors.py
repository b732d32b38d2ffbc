"""The exceptions: their kinds, what they know, and that they survive pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
import semel
from semel import _errors

CLASSES = [
    kind
    for _, kind in inspect.getmembers(_errors, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == "semel"
]


def test_the_kinds_are_those_of_the_surface() -> None:
    for kind in (semel.Busy, semel.Mismatch, semel.InDoubt, semel.Gone, semel.Twin, semel.Duplicate):
        assert issubclass(kind, semel.NotExecuted)
    for kind in (
        semel.NotExecuted,
        semel.Failed,
        semel.InvalidInput,
        semel.Lost,
        semel.Timeout,
        semel.TransactionConflict,
        semel.StoreError,
    ):
        assert issubclass(kind, semel.Error)
        assert not issubclass(kind, semel.StoreError) or kind is semel.StoreError
    for kind in (semel.StoreLocked, semel.Unavailable, semel.Corrupt, semel.ForkedProcess, semel.Closed, semel.Unsupported):
        assert issubclass(kind, semel.StoreError)
    assert issubclass(semel.InvalidInput, ValueError)
    assert issubclass(semel.Timeout, TimeoutError)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_survives_pickling(kind: Any) -> None:
    if issubclass(kind, semel.Error):
        error = kind("what and why", key=(None, "o", "1"), fields=("a",), retry_after=1.5, value={"x": 1})
    elif kind is semel.Terminal:
        error = kind("no", code="declined")
    else:
        error = kind("what and why")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__


def test_what_was_raised_survives_pickling(store: semel.Store) -> None:
    held = store.claim("o", "1", holder="me", payload={"a": 1})
    for call in (
        lambda: store.run("o", "1", int),
        lambda: store.run("o", "1", int, payload={"a": 2}),
        lambda: store.claim("", "1"),
    ):
        with pytest.raises(semel.Error) as raised:
            call()
        again = pickle.loads(pickle.dumps(raised.value))
        assert (type(again), str(again), again.__dict__) == (type(raised.value), str(raised.value), raised.value.__dict__)
    held.release()


def test_the_global_scope_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(semel.GLOBAL)) is semel.GLOBAL
    assert repr(semel.GLOBAL) == "semel.GLOBAL"


def test_stores_and_tickets_cannot_be_pickled(store: semel.Store) -> None:
    for thing in (store, store.claim("o", "1")):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
