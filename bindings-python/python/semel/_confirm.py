"""What ``confirm=`` may answer about an attempt whose effect is unknown."""

from __future__ import annotations

TYPE_CHECKING = False  # so that the import of semel does not wait for that of typing
if TYPE_CHECKING:
    from typing import Any


class Done:
    """It took effect, with this result.

    >>> Done("receipt 7").value
    'receipt 7'
    """

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"semel.Done({self.value!r})"


class Confirmation:
    """Answers that need no value: ``semel.NOT_DONE`` and ``semel.STILL``."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"semel.{self._name}"

    def __reduce__(self) -> str:
        return self._name


#: It took no effect: run it.
NOT_DONE = Confirmation("NOT_DONE")
#: Nobody knows yet: it stays in doubt.
STILL = Confirmation("STILL")
