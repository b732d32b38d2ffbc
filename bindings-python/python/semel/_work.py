"""The work of an operation: which ticket runs, and what its exceptions say of the effect."""

from __future__ import annotations

import contextvars

from ._errors import Retryable, Terminal

TYPE_CHECKING = False  # so that the import of semel does not wait for that of typing
if TYPE_CHECKING:
    from ._native import Claim

_NOTHING, _RETRY, _FAIL = 0, 1, 2

#: The tickets whose work runs here, innermost last.
running: contextvars.ContextVar[tuple[Claim, ...]] = contextvars.ContextVar("semel_running", default=())


def current() -> Claim | None:
    """The ticket whose work runs here, in this thread or task; ``None`` outside of any.

    Code far below can derive keys for other services from it, without passing it down:

    >>> import semel
    >>> store = semel.open("memory:")
    >>> def charge():
    ...     return len(semel.current().derive_key("charge"))
    >>> store.run("order.pay", "ORDER_1", charge)
    32
    >>> semel.current() is None
    True
    """
    tickets = running.get()
    return tickets[-1] if tickets else None


def classify(
    error: BaseException,
    retry_on: tuple[type[BaseException], ...],
    fail_on: tuple[type[BaseException], ...],
) -> int:
    """What an exception says of the effect: the class that is nearest to its own decides."""
    for kind in type(error).__mro__:
        if kind in fail_on or kind is Terminal:
            return _FAIL
        if kind in retry_on or kind is Retryable:
            return _RETRY
    # Classes that are none of its bases may still say that it is theirs.
    if isinstance(error, fail_on):
        return _FAIL
    if isinstance(error, retry_on):
        return _RETRY
    return _NOTHING


class AllArguments:
    """The payload that is all arguments of the call."""

    def __repr__(self) -> str:
        return "<all arguments>"


#: The payload when none is named: all arguments, but for ``self`` and ``cls``.
ALL_ARGUMENTS = AllArguments()
