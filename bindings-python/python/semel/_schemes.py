"""What the schemes answer where a type of Python serves best."""

from __future__ import annotations

TYPE_CHECKING = False  # so that the import of semel does not wait for that of typing
if TYPE_CHECKING:
    from typing import Any


class Relayed(int):
    """How many messages were sent; what else came of it is in the attributes.

    ``dead``: moved to the topic's dead letters. ``blocked``: the message that could not be sent, how often by now, and why.
    ``busy``: another relay works at this topic now.
    """

    dead: int
    blocked: tuple[str, int, str] | None
    busy: bool

    def __new__(cls, sent: int, dead: int = 0, blocked: tuple[str, int, str] | None = None, busy: bool = False) -> Relayed:
        relayed = super().__new__(cls, sent)
        relayed.dead, relayed.blocked, relayed.busy = dead, blocked, busy
        return relayed

    def __reduce__(self) -> tuple[Any, ...]:
        return (Relayed, (int(self), self.dead, self.blocked, self.busy))


class Consumed(str):
    """What consuming a message came to, a word; what else is known is in the attributes.

    ``value``: what the work returned, for "done". ``failure``: a dict with code and message of the last error, for
    "rejected". ``retry_after``: seconds after which it is worth delivering it again, for "busy".
    """

    value: Any
    failure: dict[str, str] | None
    retry_after: float | None

    def __new__(
        cls, answer: str, value: Any = None, failure: dict[str, str] | None = None, retry_after: float | None = None
    ) -> Consumed:
        consumed = super().__new__(cls, answer)
        consumed.value, consumed.failure, consumed.retry_after = value, failure, retry_after
        return consumed

    def __reduce__(self) -> tuple[Any, ...]:
        return (Consumed, (str(self), self.value, self.failure, self.retry_after))


class Outcome:
    """What one operation of a batch came to: ``value``, or the exception ``error``.

    >>> Outcome("mail.send", "A", value=7).result()
    7
    """

    __slots__ = ("error", "id", "operation", "value")

    def __init__(self, operation: str, id: str, value: Any = None, error: BaseException | None = None) -> None:
        self.operation = operation
        self.id = id
        self.value = value
        self.error = error

    @property
    def ok(self) -> bool:
        """Whether there is a value, first or replayed."""
        return self.error is None

    def result(self) -> Any:
        """The value; raises the error when there is none."""
        if self.error is not None:
            raise self.error
        return self.value

    def __repr__(self) -> str:
        told = repr(self.value) if self.error is None else type(self.error).__name__
        return f"<semel.Outcome {self.operation} {self.id!r}: {told}>"
