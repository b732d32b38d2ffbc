"""semel ("once"): an operation takes effect once, however often it is asked for, and every repeat gets the first answer.

>>> import semel
>>> store = semel.open("memory:")
>>> store.run("order.create", "ORDER_1", lambda: "created", payload={"amount": 100})
'created'
>>> store.run("order.create", "ORDER_1", lambda: "again?", payload={"amount": 100})
'created'
"""

from ._confirm import NOT_DONE, STILL, Confirmation, Done
from ._errors import (
    Busy,
    Closed,
    Corrupt,
    Duplicate,
    Error,
    Failed,
    ForkedProcess,
    Gone,
    InDoubt,
    InvalidInput,
    Lost,
    Mismatch,
    NotExecuted,
    ResultNotKept,
    Retryable,
    StoreError,
    StoreLocked,
    Terminal,
    Timeout,
    TransactionConflict,
    Twin,
    Unavailable,
    Unsupported,
)
from ._native import GLOBAL, Claim, Clock, Json, Record, __version__, canonical, fingerprint
from ._store import Store, open
from ._work import current

__all__ = [
    "GLOBAL",
    "NOT_DONE",
    "STILL",
    "Busy",
    "Claim",
    "Clock",
    "Closed",
    "Confirmation",
    "Corrupt",
    "Done",
    "Duplicate",
    "Error",
    "Failed",
    "ForkedProcess",
    "Gone",
    "InDoubt",
    "InvalidInput",
    "Json",
    "Lost",
    "Mismatch",
    "NotExecuted",
    "Record",
    "ResultNotKept",
    "Retryable",
    "Store",
    "StoreError",
    "StoreLocked",
    "Terminal",
    "Timeout",
    "TransactionConflict",
    "Twin",
    "Unavailable",
    "Unsupported",
    "__version__",
    "canonical",
    "current",
    "fingerprint",
    "open",
]
