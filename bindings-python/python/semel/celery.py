"""For Celery: tasks that are delivered at least once take effect once.

    app = Celery("shop", broker=..., task_cls=semel.celery.IdempotentTask)      # or base= at one task
    app.conf.semel_store = "data/semel"

    @app.task(semel={"key": "order_no", "fail_on": (CardDeclined,)})
    def pay(order_no, amount): ...

Needs celery: ``pip install celery``.
"""

from __future__ import annotations

import weakref
from typing import Any

from . import _decorator
from ._errors import Busy, InvalidInput
from ._store import Store, open
from ._work import ALL_ARGUMENTS

try:
    import celery
    from celery.exceptions import Ignore, Reject, Retry
except ImportError as error:
    raise ImportError("semel.celery needs celery: pip install celery") from error

__all__ = ["IdempotentTask"]

#: The pause before a task is asked for again that another worker runs, in seconds.
_SHORTEST_PAUSE_SECONDS = 0.1

#: What a task raises to say that it is to run again, or that it was not run: it took no effect.
_NOT_DONE = (Ignore, Reject, Retry)

_stores: weakref.WeakKeyDictionary[Any, Store] = weakref.WeakKeyDictionary()


def _store_of(app: Any) -> Store:
    """The store of an application, opened at the first task: the workers of a pool share it."""
    store = _stores.get(app)
    if store is None:
        place = app.conf.get("semel_store")
        if place is None:
            raise InvalidInput("the application has no semel_store: set app.conf.semel_store to a directory, or to a store")
        store = _stores[app] = place if isinstance(place, Store) else open(place)
    return store


class IdempotentTask(celery.Task):  # type: ignore[misc]
    """A task that runs once for each key; every repeat succeeds with the first result.

    Its option ``semel`` is a dict of what ``Store.idempotent`` takes: ``key`` and ``scope`` (dotted paths or functions of the
    arguments), ``payload``, ``retry_on``, ``fail_on``, ``returns``, ``in_doubt``, ``retain``, ``lease`` and the rest. Without a
    ``key`` it is the id of the task, which is the same when a message is delivered again, and another one when the task is sent
    again: a number of the business serves better.

    It acknowledges late (``acks_late``, ``reject_on_worker_lost``), so that no task is lost with its worker. Then:

    - it was done: it succeeds with the first result, and is acknowledged;
    - another worker runs it, after a visibility timeout say: it is sent again for later, under its id, and its tries do not count;
    - it may have been done, since its worker was killed in the middle: it fails with ``semel.InDoubt``, and somebody resolves it;
      with ``in_doubt="rerun"`` it runs again;
    - ``self.retry()`` and ``autoretry_for`` say that it took no effect: it runs again.

    Other failures are ``semel.Mismatch``, ``semel.Gone`` and ``semel.Failed``, which is a failure of ``fail_on`` that is kept.
    """

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    #: What Store.idempotent takes.
    semel: dict[str, Any] | None = None

    def __init__(self) -> None:
        self._guarded: Any = None
        if self.semel is not None:
            # A path that names no parameter is told where it is written.
            self._guard(None)

    def _guard(self, store: Store | None) -> Any:
        given = {
            "key": self._id,
            "scope": None,
            "payload": ALL_ARGUMENTS,
            "on_repeat": "replay",
            "message": "",
            "fail_on": (),
            "returns": None,
            **(self.semel or {}),
        }
        retry_on = given.get("retry_on") or ()
        given["retry_on"] = (*(retry_on if isinstance(retry_on, (tuple, list)) else (retry_on,)), *_NOT_DONE)
        return _decorator.guard(store, self.name, given)(self.run)

    def _id(self, *_: Any, **__: Any) -> Any:
        return self.request.id

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the task, unless it was run."""
        by_id = "key" not in (self.semel or {})
        if self.request.called_directly and by_id:
            return super().__call__(*args, **kwargs)
        if self._guarded is None:
            self._guarded = self._guard(_store_of(self.app))
        try:
            return self._guarded(*args, **kwargs)
        except Busy as busy:
            if self.request.called_directly or self.request.is_eager:
                raise
            self._later(busy.retry_after or 0.0, args, kwargs)
            raise Ignore("another worker runs it; it is sent again for later") from None

    def _later(self, seconds: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        countdown = max(seconds, _SHORTEST_PAUSE_SECONDS)
        again = self.signature_from_request(self.request, args, kwargs, countdown=countdown, retries=self.request.retries)
        again.apply_async()
