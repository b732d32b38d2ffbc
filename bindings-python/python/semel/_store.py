"""The store as Python has it: the native one, with what is written in Python."""

from __future__ import annotations

import atexit
import os
import weakref

from . import _errors, _native, _work

TYPE_CHECKING = False  # so that the import of semel does not wait for that of typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any, Literal

    from ._decorator import Idempotent, P, R, Source
    from .types import Errors


#: Stores that are open, each with the process that opened it.
_opened: weakref.WeakKeyDictionary[Store, int] = weakref.WeakKeyDictionary()


@atexit.register
def _write_what_is_queued() -> None:
    """An interpreter that ends takes no relaxed work along. What was inherited through a fork is the parent's to write."""
    for store, process in list(_opened.items()):
        if process == os.getpid():
            try:
                store.sync()
            except _errors.Error:
                pass  # closed, or of a store that has failed: whoever used it was told


class Store(_native.Store):
    __doc__ = _native.Store.__doc__

    def __init__(self, place: str | PathLike[str], **options: Any) -> None:
        _opened[self] = os.getpid()

    def idempotent(
        self,
        operation: str,
        *,
        key: Source,
        scope: Source | _native.Global | None = None,
        payload: Source | Sequence[str] | _work.AllArguments | None = _work.ALL_ARGUMENTS,
        on_repeat: Literal["replay", "raise"] = "replay",
        message: str = "already submitted",
        retry_on: Errors = (),
        fail_on: Errors = (),
        returns: Any = None,
        **options: Any,
    ) -> Callable[[Callable[P, R]], Idempotent[P, R]]:
        """Guards a function, method or ``async def``: it runs once for each key, and every repeat gets its first result.

        ``key`` and ``scope`` are dotted paths that begin with a parameter ("req.order_no"), or functions of the arguments.
        ``payload`` is all arguments but ``self``; or a path, a list of paths, a function, or None for none. Exceptions named
        in ``retry_on`` took no effect, those in ``fail_on`` are the result; any other leaves the operation in doubt. With
        on_repeat="raise" a repeat raises Duplicate with ``message``. Options as of claim.

        The guarded function has ``lookup`` and ``forget``, which take its arguments.

        Raises InvalidInput at once when a path names no parameter, and for generators, whose results cannot be replayed.

        >>> import semel
        >>> store = semel.open("memory:")
        >>> @store.idempotent("order.create", key="order_no", fail_on=ValueError)
        ... def create_order(order_no, amount):
        ...     return f"{order_no} for {amount}"
        >>> create_order("ORDER_1", 100), create_order("ORDER_1", 100)
        ('ORDER_1 for 100', 'ORDER_1 for 100')
        >>> create_order("ORDER_1", 200)
        Traceback (most recent call last):
        ...
        semel.Mismatch: order.create "ORDER_1": the key was used for another request; these differ: amount
        >>> create_order.lookup("ORDER_1", 100).state
        'succeeded'
        """
        given = {
            "key": key,
            "scope": scope,
            "payload": payload,
            "on_repeat": on_repeat,
            "message": message,
            "retry_on": retry_on,
            "fail_on": fail_on,
            "returns": returns,
            **options,
        }
        # With what it stands on, inspect above all, it takes longer to import than the rest.
        from . import _decorator

        return _decorator.guard(self, operation, given)


def open(place: str | PathLike[str], **options: Any) -> Store:
    """Opens the store at a place, made if there is none: a directory, ``sled:PATH``, or ``memory:``.

    Options: durability ("sync" or "relaxed"), in_doubt ("hold", "rerun" or "ask": the default of its operations), shared
    ("auto", "never" or "only"), commit_interval, cache_bytes, max_records, max_result_bytes, sweep_interval (0: by hand),
    archive, accept_rollback, accept_clock, lock_timeout, clock.

    A directory that another process holds is used through that process. Raises InvalidInput, StoreLocked when another
    process holds it and does not share, Corrupt and Unavailable.

    >>> import semel
    >>> with semel.open("memory:") as store:
    ...     store.claim("order.create", "ORDER_1").answer
    'execute'
    """
    return Store(place, **options)
