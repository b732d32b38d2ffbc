"""Every exception of semel, with what it knows as attributes; all of them survive pickling."""

from __future__ import annotations

TYPE_CHECKING = False  # so that the import of semel does not wait for that of typing
if TYPE_CHECKING:
    from typing import Any


class Error(Exception):
    """What all exceptions of semel are. The message says what was wrong and what to do."""

    def __init__(self, message: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), self.__dict__.copy()))


def _again(kind: type[Error], facts: dict[str, Any]) -> Error:
    """An exception as it was pickled."""
    error = kind.__new__(kind)
    Exception.__init__(error, facts.get("message", ""))
    error.__dict__.update(facts)
    return error


class NotExecuted(Error):
    """The operation was not run, and there is no result to give. Raised by the one-call forms; a claim answers instead.

    Attributes: ``key`` (scope, operation, id), ``attempt``, ``executed_at`` (when the first attempt began).
    """

    key: tuple[str | None, str, str] | None = None
    attempt: int = 0
    executed_at: Any = None
    #: Seconds after which it is worth asking again; ``None`` when asking again changes nothing.
    retry_after: float | None = None


class Busy(NotExecuted):
    """Somebody runs it now. Ask again after ``retry_after`` seconds, or call with ``wait=``.

    Attributes: ``since``, ``lease_remaining`` (seconds, ``None`` without end), ``holder``, ``retry_after``.
    """

    since: Any = None
    lease_remaining: float | None = None
    holder: str | None = None


class Mismatch(NotExecuted):
    """The key belongs to another request. ``fields``: the top-level members of the payload that differ."""

    fields: tuple[str, ...] = ()


class InDoubt(NotExecuted):
    """It may have been done. Nobody runs it until ``store.resolve(...)``; the message has the command.

    Attributes: ``since``, ``doubt`` (what ended the attempt), ``fence``.
    """

    since: Any = None
    doubt: str = ""
    fence: int = 0


class Gone(NotExecuted):
    """It was executed, and its result is no longer kept."""


class Twin(NotExecuted):
    """The same request came before under another id: ``first_id``."""

    first_id: str = ""


class Duplicate(NotExecuted):
    """It was executed before, and the decorator was told ``on_repeat="raise"``."""


class Failed(Error):
    """It ended with this error before. ``code``, ``kind`` (the type of the first error) and ``message`` are those of then."""

    code: str = ""
    kind: str = ""
    key: tuple[str | None, str, str] | None = None
    attempt: int = 0
    executed_at: Any = None


class InvalidInput(Error, ValueError):
    """What was given cannot be used. Nothing was touched: correct it and call again."""


class Lost(Error):
    """The ticket is no longer the holder of its key. ``value``: what the work had returned, when it was run."""

    value: Any = None


class Timeout(Error, TimeoutError):
    """Waiting took longer than was allowed."""


class TransactionConflict(Error):
    """A transaction met conflicts more often than it may try again. Do less in one, or spread the load."""


class StoreError(Error):
    """The store could not do it. It never means that the operation may run."""


class StoreLocked(StoreError):
    """Another process holds the store and does not share it; the message has its pid and the ways out."""


class Unavailable(StoreError):
    """The store cannot serve now. Asking again with the same key is always safe."""


class Corrupt(StoreError):
    """What is on disk is not what was written. Follow the advice of the message."""


class ForkedProcess(StoreError):
    """The handle came through ``fork()``, and the store is not shared: open it in this process."""


class Closed(StoreError):
    """The store was closed. Open it again."""


class Unsupported(StoreError):
    """This store or platform cannot do what was asked."""


class Retryable(Exception):
    """For work to raise: it took no effect, and may run again."""


class Terminal(Exception):
    """For work to raise: it is over, and this error is its result. Every repeat gets ``Failed`` with ``code``.

    >>> error = Terminal("the card was declined", code="card_declined")
    >>> error.code
    'card_declined'
    """

    def __init__(self, message: str = "", *, code: str = "error") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return (_terminal, (str(self), self.code))


def _terminal(message: str, code: str) -> Terminal:
    return Terminal(message, code=code)


class ResultNotKept(RuntimeWarning):
    """A result was too large, or could not be encoded: recorded as executed without it, and repeats are answered gone."""


# Where users find them, so that a traceback names what they can catch.
for _kind in list(globals().values()):
    if isinstance(_kind, type) and issubclass(_kind, Exception):
        _kind.__module__ = "semel"
