"""Names of types, for annotations of code that uses semel; at runtime they are plain aliases and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from uuid import UUID

if TYPE_CHECKING:
    from ._confirm import Confirmation, Done
    from ._native import Clock, Global, Record

#: Seconds, a timedelta, or text like "30s" and "1d12h".
Span = float | timedelta | str
#: What names one of many: a text, or an integer or UUID by its text.
Id = str | int | UUID
#: One class of exceptions, or several.
Errors = type[BaseException] | Iterable[type[BaseException]]
#: The words of a claim.
Answer = Literal["execute", "replay", "failed", "busy", "mismatch", "in_doubt", "gone", "twin"]
#: What happens after an attempt whose effect is unknown.
Policy = Literal["hold", "rerun", "ask"]
#: When a call returns.
Durability = Literal["sync", "relaxed"]
#: Scope (None is the global one), operation and id.
Key = tuple[str | None, str, str]
#: code, kind and message of an error that is kept.
Failure = dict[str, str]


class Terms(TypedDict, total=False):
    """The rules that an operation is to live by; see ``Store.claim``."""

    lease: Span | None
    retain: Span | None
    remember: Span | None
    wait: Span | None
    in_doubt: Policy | None
    confirm: Callable[[Record], Done | Confirmation] | None
    max_attempts: int | None
    retry_window: Span | None
    twin_window: Span | None
    on_twin: Literal["report", "refuse"] | None
    durability: Durability | None
    holder: str | None
    on_lost: Callable[[str], object] | None
    renew: Literal["on", "off"] | bool | None
    renew_limit: Span | None


class Scoped(Terms, total=False):
    """The rules of many operations at once."""

    scope: str | Global | None


class Options(Scoped, total=False):
    """The options of one operation."""

    payload: Any


class StoreOptions(TypedDict, total=False):
    """The options of a store; see ``semel.open``."""

    durability: Durability | None
    in_doubt: Policy | None
    shared: Literal["auto", "never", "only"] | None
    commit_interval: Span | None
    cache_bytes: int | None
    max_records: int | None
    max_result_bytes: int | None
    sweep_interval: Span | None
    archive: str | PathLike[str] | None
    accept_rollback: bool | None
    accept_clock: bool | None
    lock_timeout: Span | None
    clock: Clock | None


class LockOptions(TypedDict, total=False):
    """The options of a lock; see ``Store.lock``."""

    lease: Span
    wait: Span
    renew: Literal["on", "off"] | bool
    renew_limit: Span
    holder: str
    on_lost: Callable[[str], object]


class ConsumeOptions(TypedDict, total=False):
    """The options of a message; see ``Store.consume``."""

    max_attempts: int
    lease: Span
    retain: Span
    wait: Span
    durability: Durability


class Ending(TypedDict, total=False):
    """What came of an operation in doubt; see ``Store.resolve``."""

    value: Any
    error: BaseException | Mapping[str, str]
