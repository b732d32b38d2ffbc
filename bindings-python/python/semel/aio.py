"""The same verbs for asyncio: awaited, and never in the way of the event loop.

A call is polled on the loop's own thread; what has to wait for the disk, for another holder or for another process rings a
pipe that the loop watches. No thread is started for claims and their ends. Works with asyncio and uvloop, on Unix.

>>> import asyncio, semel.aio
>>> async def main():
...     async with semel.aio.open("memory:") as store:
...         async def work():
...             return "created"
...         return [await store.run("order.create", "ORDER_1", work) for _ in range(2)]
>>> asyncio.run(main())
['created', 'created']
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native, _work
from ._store import Store as _Store

T = TypeVar("T")

__all__ = ["Claim", "Lock", "Outbox", "Store", "claim", "open", "run"]

#: The numbers of the tasks whose work runs here: what they run, they do not wait for.
_within: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar("semel_within", default=())


class _Bell:
    """Wakes the tasks of one loop when their calls can go on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        self.mailbox = _native.Mailbox()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self.mailbox.fileno(), self.ring)

    def ring(self) -> None:
        for number in self.mailbox.drain():
            future = self.waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)


#: The bells of all loops that live, and the last that this thread has asked for.
_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bell] = weakref.WeakKeyDictionary()
_local = threading.local()


def _bell() -> _Bell:
    loop = asyncio.get_running_loop()
    bell: _Bell | None = getattr(_local, "bell", None)
    if bell is None or bell.loop() is not loop:
        bell = _bells.get(loop)
        if bell is None:
            bell = _bells[loop] = _Bell(loop)
        _local.bell = bell
    return bell


async def _finish(op: _native.Op) -> Any:
    """Polls a call to its end. Cancelled meanwhile, it is given up: a claim is taken back, and what was told stays."""
    bell = _bell()
    try:
        while not op.poll(bell.mailbox):
            future = bell.waiting[op.number] = asyncio.get_running_loop().create_future()
            await future
    except BaseException:
        bell.waiting.pop(op.number, None)
        op.cancel()
        raise
    return op.take()


async def _elsewhere(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """A call that blocks, in the loop's own pool: what is not asked a thousand times a second."""
    return await asyncio.to_thread(functools.partial(function, *args, **kwargs))


async def claim(store: _native.Store, operation: str, id: Any, **options: Any) -> Claim:
    """Claims an operation of a store. Options as of ``semel.Store.claim``; ``confirm`` must not block."""
    op = _native.begin_claim(store, operation, id, _native.task_number(), list(_within.get()), options)
    return Claim(await _finish(op))


async def run(
    store: _native.Store,
    operation: str,
    id: Any,
    work: Callable[..., Any],
    *,
    pass_ticket: bool = False,
    retry_on: Any = (),
    fail_on: Any = (),
    returns: Any = None,
    **options: Any,
) -> Any:
    """Runs the work of an operation once, and gives every repeat its first result. As ``semel.Store.run``, awaited.

    Cancelled while the work runs, the operation is in doubt; once the work has ended, its result is kept even so.
    """
    rules = _native.Rules(retry_on, fail_on, returns)
    number, within = _native.task_number(), _within.get()
    op = _native.begin_claim(store, operation, id, number, list(within), options)
    claimed = await _finish(op)
    if claimed.answer != "execute":
        return claimed.result(returns)
    ticket = Claim(claimed)
    running = _work.running.set((*_work.running.get(), ticket))  # type: ignore[arg-type]
    inside = _within.set((*within, number))
    try:
        value = work(ticket) if pass_ticket else work()
        if inspect.isawaitable(value):
            value = await value
    except asyncio.CancelledError:
        _native.abandon(claimed)
        raise
    except BaseException as error:
        if not isinstance(error, Exception):
            _native.abandon(claimed)
            raise
        # The work's own exception is raised again when what it says is kept.
        return await _finish(_native.begin_conclude(claimed, rules, None, error))
    finally:
        _within.reset(inside)
        _work.running.reset(running)
    return await _finish(_native.begin_conclude(claimed, rules, value))


class Claim:
    """The answer to a claim, and the ticket in it; see ``semel.Claim``. What tells the store something is awaited."""

    __slots__ = ("_claim",)

    def __init__(self, claim: _native.Claim) -> None:
        self._claim = claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def __repr__(self) -> str:
        return repr(self._claim).replace("semel.Claim", "semel.aio.Claim")

    async def complete(self, value: Any = None) -> Any:
        """Keeps the result; every repeat gets it."""
        return await _finish(_native.begin_complete(self._claim, value))

    async def complete_without_result(self) -> None:
        """Records that the operation was executed, without a result."""
        await _finish(_native.begin_complete_without_result(self._claim))

    async def fail(self, error: Any) -> None:
        """Keeps an error as the result; every repeat gets it."""
        await _finish(_native.begin_fail(self._claim, error))

    async def release(self) -> None:
        """Says that the operation took no effect and may run again."""
        await _finish(_native.begin_release(self._claim))

    async def renew(self) -> None:
        """Starts the lease anew, as is done by itself at a third of it."""
        await _finish(_native.begin_renew(self._claim))

    async def doubt(self, why: str) -> None:
        """Says that nobody knows whether the operation took effect, and why."""
        await _finish(_native.begin_doubt(self._claim, why))

    async def step(
        self,
        name: str,
        work: Callable[[], Any],
        *,
        retry_on: Any = (),
        fail_on: Any = (),
        returns: Any = None,
    ) -> Any:
        """Runs a named step of the work, once: an attempt that follows skips steps that are done, and gets their results."""
        rules = _native.Rules(retry_on, fail_on, returns)
        done, begun = await _finish(_native.begin_step(self._claim, name, returns))
        if done:
            return begun
        try:
            value = work()
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            return await _finish(_native.conclude_step(begun, rules, None, error))
        return await _finish(_native.conclude_step(begun, rules, value))


class Lock:
    """A leased lock, held within an ``async with``; see ``semel.Lock``."""

    __slots__ = ("_lock",)

    def __init__(self, lock: _native.Lock) -> None:
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    async def acquire(self) -> None:
        """Acquires the lock, waiting as long as ``wait`` says. Raises Busy when somebody else holds it."""
        await _finish(_native.begin_acquire(self._lock))

    async def release(self) -> None:
        """Lets go of the lock. Raises Lost when it was lost before."""
        await _elsewhere(self._lock.release)

    async def renew(self) -> None:
        """Starts the lease anew, as is done by itself at a third of it."""
        await _elsewhere(self._lock.renew)

    async def __aenter__(self) -> Lock:
        await self.acquire()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await _elsewhere(self._lock.__exit__, kind, error, trace)


class _Elsewhere:
    """A scheme whose calls block: each is awaited, and runs in the loop's own pool."""

    __slots__ = ("_scheme",)

    def __init__(self, scheme: Any) -> None:
        self._scheme = scheme

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._scheme, name)
        if not callable(method):
            return method

        @functools.wraps(method)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await _elsewhere(method, *args, **kwargs)

        return awaited

    def __repr__(self) -> str:
        return repr(self._scheme)


class Outbox(_Elsewhere):
    """A topic of the outbox; see ``semel.Outbox``. ``send`` may be a coroutine function: it runs on the loop."""

    __slots__ = ()

    async def relay(self, send: Callable[[str, Any], Any], **options: Any) -> Any:
        """Sends messages in their order, each at least once."""
        if not inspect.iscoroutinefunction(send):
            return await _elsewhere(self._scheme.relay, send, **options)
        loop = asyncio.get_running_loop()

        def send_there(id: str, message: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(send(id, message), loop).result()

        return await _elsewhere(self._scheme.relay, send_there, **options)


class Store:
    """A store for asyncio; see ``semel.Store``. ``sync`` is the same store for code that blocks."""

    __slots__ = ("blocking",)

    def __init__(self, place: Any, **options: Any) -> None:
        #: The same store for code that blocks.
        self.blocking = place if isinstance(place, _Store) and not options else _Store(place, **options)

    async def claim(self, operation: str, id: Any, **options: Any) -> Claim:
        """Claims an operation: may I run it, or has it been done?"""
        return await claim(self.blocking, operation, id, **options)

    async def run(self, operation: str, id: Any, work: Callable[..., Any], **options: Any) -> Any:
        """Runs the work once, and gives every repeat its first result. ``work`` is a coroutine function, or a plain one."""
        return await run(self.blocking, operation, id, work, **options)

    def idempotent(self, operation: str, **given: Any) -> Any:
        """Guards an ``async def``; see ``semel.Store.idempotent``."""
        return self.blocking.idempotent(operation, **given)

    async def claim_many(self, operation: str, items: Any, **options: Any) -> list[Any]:
        """Claims many operations; all of them share one wait for the disk."""
        claims = await _elsewhere(self.blocking.claim_many, operation, items, **options)
        return [Claim(claim) if isinstance(claim, _native.Claim) else claim for claim in claims]

    async def lookup(self, operation: str, id: Any, *, scope: Any = None) -> Any:
        """What is known of an operation; None when it is absent or forgotten."""
        return await _elsewhere(self.blocking.lookup, operation, id, scope=scope)

    async def forget(self, operation: str, id: Any, *, scope: Any = None) -> str:
        """Drops what is known of an operation: "forgotten", "absent" or "busy"."""
        return await _elsewhere(self.blocking.forget, operation, id, scope=scope)

    async def resolve(self, operation: str, id: Any, **ending: Any) -> str:
        """Ends a doubt, by exactly one of value=, error=, executed=True and rerun=True."""
        return await _elsewhere(self.blocking.resolve, operation, id, **ending)

    async def unresolved(self, limit: int = 1000) -> list[Any]:
        """Operations that somebody must resolve, longest in doubt first."""
        return await _elsewhere(self.blocking.unresolved, limit)

    async def transaction(self, work: Callable[[Any], Any], **options: Any) -> Any:
        """Runs ``work(tx)``, a plain function, in the loop's pool; see ``semel.Store.transaction``."""
        return await _elsewhere(self.blocking.transaction, work, **options)

    async def consume(self, consumer: str, message_key: Any, work: Callable[[Any], Any], **options: Any) -> str:
        """Handles a message once; ``work(tx)`` is a plain function and runs in the loop's pool."""
        return await _elsewhere(self.blocking.consume, consumer, message_key, work, **options)

    def lock(self, name: str, **options: Any) -> Lock:
        """The lock ``name``, to be held within an ``async with``."""
        return Lock(self.blocking.lock(name, **options))

    def outbox(self, topic: str) -> Outbox:
        """The outbox of a topic."""
        return Outbox(self.blocking.outbox(topic))

    def unique(self, name: str, **options: Any) -> Any:
        """The unique index ``name``; its calls are awaited."""
        return _Elsewhere(self.blocking.unique(name, **options))

    def table(self, name: str, **options: Any) -> Any:
        """The table ``name``; its calls are awaited."""
        return _Elsewhere(self.blocking.table(name, **options))

    def ledger(self, name: str, **options: Any) -> Any:
        """The ledger ``name``; its calls are awaited."""
        return _Elsewhere(self.blocking.ledger(name, **options))

    def machine(self, name: str, edges: dict[str, list[str]], initial: str, **options: Any) -> Any:
        """The machine ``name``; its calls are awaited."""
        return _Elsewhere(self.blocking.machine(name, edges, initial, **options))

    @property
    def tokens(self) -> Any:
        """The tokens of the store; its calls are awaited."""
        return _Elsewhere(self.blocking.tokens)

    @property
    def ids(self) -> Any:
        """Makers of ids for keys; its calls are awaited."""
        return _Elsewhere(self.blocking.ids)

    async def tick(self, name: str, every: Any) -> bool:
        """Claims the present period of periodic work: True for the first who asks in it."""
        return await _elsewhere(self.blocking.tick, name, every)

    async def sweep(self) -> int:
        """Frees what is forgotten; how many records."""
        return await _elsewhere(self.blocking.sweep)

    async def stats(self) -> dict[str, Any]:
        """What was counted since the store was opened, and how it stands."""
        return await _elsewhere(self.blocking.stats)

    async def metrics(self) -> str:
        """stats as Prometheus text."""
        return await _elsewhere(self.blocking.metrics)

    async def verify(self) -> dict[str, Any]:
        """Reads everything that is stored, to know that it can be read."""
        return await _elsewhere(self.blocking.verify)

    async def backup(self, path: Any) -> dict[str, Any]:
        """Copies all that is on disk into a new file."""
        return await _elsewhere(self.blocking.backup, path)

    async def sync(self) -> None:
        """Waits until everything that was written before is on disk."""
        await _elsewhere(self.blocking.sync)

    async def close(self) -> None:
        """Takes no more calls, writes what is queued, and lets go of the store."""
        await _elsewhere(self.blocking.close)

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self.blocking).replace("semel.Store", "semel.aio.Store")


def open(place: Any, **options: Any) -> Store:
    """Opens a store for asyncio; see ``semel.open``. Opening reads the index, and blocks: do it before the loop serves."""
    return Store(place, **options)
