"""What ``confirm=`` may answer about an attempt whose effect is unknown."""

from __future__ import annotations

import enum
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


class Confirmation(enum.Enum):
    """Answers that need no value."""

    NOT_DONE = "not_done"
    STILL = "still"


#: It took no effect: run it.
NOT_DONE = Confirmation.NOT_DONE
#: Nobody knows yet: it stays in doubt.
STILL = Confirmation.STILL
