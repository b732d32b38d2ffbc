"""``store.idempotent``: a function that runs once for each key, and gives every repeat its first result."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, cast

from . import _native
from ._errors import Busy, Duplicate, Failed, Gone, InvalidInput
from ._work import ALL_ARGUMENTS

if TYPE_CHECKING:
    from ._native import Record

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: Where a key, scope or payload comes from: a dotted path that begins with a parameter, or a function of the arguments.
Source = str | Callable[..., Any]


class Idempotent(Protocol[P, R_co]):
    """A function that runs once for each key."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def lookup(self, *args: P.args, **kwargs: P.kwargs) -> Record | None:
        """What is known of the call with these arguments."""

    def forget(self, *args: P.args, **kwargs: P.kwargs) -> Literal["forgotten", "absent", "busy"]:
        """Drops what is known of the call with these arguments, so that it may run again."""


class _Arguments:
    """The arguments of a call by name, as the function would get them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters.values()
        self.names = tuple(parameter.name for parameter in parameters)
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
        self.simple = all(parameter.kind in plain for parameter in parameters)
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.receiver = self.names[0] if self.names and self.names[0] in ("self", "cls") else None

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self.simple and not kwargs and len(args) == len(self.names):
            return dict(zip(self.names, args, strict=False))
        call = self.signature.bind(*args, **kwargs)
        call.apply_defaults()
        return call.arguments


class _Path:
    """A dotted path that begins with a parameter: attributes, and members of mappings."""

    def __init__(self, what: str, path: str, arguments: _Arguments, function: Callable[..., Any]) -> None:
        self.what, self.path = what, path
        self.first, *self.rest = path.split(".")
        if not all(part.isidentifier() for part in (self.first, *self.rest)):
            raise InvalidInput(f"{what}={path!r} is no dotted path; give one like 'order_no' or 'req.order_no', or a function")
        if self.first not in arguments.names:
            raise InvalidInput(
                f"{what}={path!r}: {_name(function)} has no parameter {self.first!r}; it has {', '.join(arguments.names) or 'none'}"
            )

    def __call__(self, bound: dict[str, Any]) -> Any:
        value = bound[self.first]
        for part in self.rest:
            if isinstance(value, Mapping):
                if part not in value:
                    raise self.missing(part)
                value = value[part]
            else:
                try:
                    value = getattr(value, part)
                except AttributeError:
                    raise self.missing(part) from None
        return value

    def missing(self, part: str) -> InvalidInput:
        return InvalidInput(f"{self.what}={self.path!r}: the argument has no {part!r}; nothing was run")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _source(
    what: str, source: Source, arguments: _Arguments, function: Callable[..., Any]
) -> Callable[[dict[str, Any], tuple[Any, ...], dict[str, Any]], Any]:
    """How a key, scope or payload is taken from a call; checked now, not at the first call."""
    if isinstance(source, str):
        path = _Path(what, source, arguments, function)
        if not path.rest:
            return lambda bound, args, kwargs: bound[source]
        return lambda bound, args, kwargs: path(bound)
    if not callable(source):
        raise InvalidInput(f"{what} is {source!r}; give a dotted path like 'req.order_no', or a function of the arguments")
    try:
        inspect.signature(source).bind(*arguments.signature.parameters)
    except TypeError as error:
        raise InvalidInput(f"{what}: the function does not take the arguments of {_name(function)}: {error}") from None
    except ValueError:  # a builtin that does not tell its signature
        pass
    return lambda bound, args, kwargs: source(*args, **kwargs)


def _payload(
    payload: Any, arguments: _Arguments, function: Callable[..., Any]
) -> Callable[[dict[str, Any], tuple[Any, ...], dict[str, Any]], Any]:
    if payload is ALL_ARGUMENTS:
        receiver = arguments.receiver
        if receiver is None:
            return lambda bound, args, kwargs: bound
        return lambda bound, args, kwargs: {name: value for name, value in bound.items() if name != receiver}
    if payload is None:
        return lambda bound, args, kwargs: None
    if isinstance(payload, Sequence) and not isinstance(payload, str):
        paths = [_Path("payload", path, arguments, function) for path in payload]
        return lambda bound, args, kwargs: {path.path: path(bound) for path in paths}
    return _source("payload", payload, arguments, function)


class _Guard:
    """What the guarded function, its lookup and its forget share."""

    def __init__(self, store: Any, function: Callable[..., Any], operation: str, given: dict[str, Any]) -> None:
        self.store, self.function, self.operation = store, function, operation
        self.arguments = _Arguments(function)
        key = given.pop("key")
        self.key = _source("key", key, self.arguments, function)
        scope = given.pop("scope")
        self.scope = None
        if scope is not None and scope is not _native.GLOBAL:
            self.scope = _source("scope", scope, self.arguments, function)
        payload = given.pop("payload")
        self.payload = _payload(payload, self.arguments, function)
        #: The key's place, when it is an argument, all arguments are the payload, and there is no scope.
        self.place: int | None = None
        if key in self.arguments.names and payload is ALL_ARGUMENTS and self.scope is None and self.arguments.receiver is None:
            self.place = self.arguments.names.index(key)
        self.on_repeat, self.message = given.pop("on_repeat"), given.pop("message")
        if self.on_repeat not in ("replay", "raise"):
            raise InvalidInput(f"on_repeat is {self.on_repeat!r}; it is 'replay' or 'raise'")
        self.rules = {name: given.pop(name) for name in ("retry_on", "fail_on", "returns")}
        self.options = given
        # Names that cannot be used are told where they are written.
        self.prepared = _native.Prepared(operation, **self.rules, **given)

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any, Any]:
        """The arguments by name, the key and the scope of a call."""
        bound = self.arguments.bound(args, kwargs)
        key = self.key(bound, args, kwargs)
        if type(key) is not str and (not isinstance(key, (str, int, uuid.UUID)) or isinstance(key, bool)):
            raise InvalidInput(
                f"the key of {_name(self.function)} is {key!r}; it must be a text, an integer or a UUID, and nothing was run"
            )
        return bound, key, None if self.scope is None else self.scoped(bound, args, kwargs)

    def scoped(self, bound: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self.scope is not None
        scope = self.scope(bound, args, kwargs)
        if scope is None:
            raise InvalidInput(f"the scope of {_name(self.function)} is None; pass semel.GLOBAL for the scope that all share")
        return scope if isinstance(scope, str) or scope is _native.GLOBAL else str(scope)

    def lookup(self, *args: Any, **kwargs: Any) -> Any:
        _, key, scope = self.named(args, kwargs)
        return self.store.lookup(self.operation, key, scope=scope)

    def forget(self, *args: Any, **kwargs: Any) -> Any:
        _, key, scope = self.named(args, kwargs)
        return self.store.forget(self.operation, key, scope=scope)

    def duplicate(self, cause: Any = None) -> Duplicate:
        known = {name: getattr(cause, name) for name in ("key", "attempt", "executed_at") if hasattr(cause, name)}
        error = Duplicate(self.message, **known)
        error.__cause__ = cause if isinstance(cause, BaseException) else None
        return error

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound, key, scope = self.named(args, kwargs)
        payload = self.payload(bound, args, kwargs)
        return self.prepared.run(self.store, key, scope, payload, self.function, args, kwargs)

    def runner(self) -> Callable[..., Any]:
        """``run`` for calls as most are, without a detour: all arguments by position, and one of them is the key."""
        if self.place is None or not self.arguments.simple:
            return lambda *args, **kwargs: self.run(args, kwargs)
        place, names, count = self.place, self.arguments.names, len(self.arguments.names)
        run, store, function = self.prepared.run, self.store, self.function

        def runner(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != count or type(args[place]) is not str:
                return self.run(args, kwargs)
            return run(store, args[place], None, dict(zip(names, args, strict=True)), function, args, None)

        return runner

    def run_or_raise(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound, key, scope = self.named(args, kwargs)
        payload = self.payload(bound, args, kwargs)
        ran = False

        def work() -> Any:
            nonlocal ran
            ran = True
            return self.function(*args, **kwargs)

        try:
            value = self.prepared.run(self.store, key, scope, payload, work, (), None)
        except (Busy, Failed, Gone) as error:
            if ran:
                raise
            raise self.duplicate(error) from error
        if not ran:
            raise self.duplicate(self.store.lookup(self.operation, key, scope=scope))
        return value

    async def run_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from . import aio

        bound, key, scope = self.named(args, kwargs)
        payload = self.payload(bound, args, kwargs)
        ran = False

        async def work() -> Any:
            nonlocal ran
            ran = True
            return await self.function(*args, **kwargs)

        options = {**self.options, **self.rules, "scope": scope, "payload": payload}
        if self.on_repeat == "replay":
            return await aio.run(self.store, self.operation, key, work, **options)
        try:
            value = await aio.run(self.store, self.operation, key, work, **options)
        except (Busy, Failed, Gone) as error:
            if ran:
                raise
            raise self.duplicate(error) from error
        if not ran:
            raise self.duplicate()
        return value


def guard(store: Any, operation: str, given: dict[str, Any]) -> Callable[[Callable[P, R]], Idempotent[P, R]]:
    """The decorator for one operation of a store."""

    def decorate(function: Callable[P, R]) -> Idempotent[P, R]:
        _check(function)
        guarded = _Guard(store, function, operation, dict(given))
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                return await guarded.run_async(args, kwargs)

        elif guarded.on_repeat == "replay":
            wrapper = functools.wraps(function)(guarded.runner())

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return guarded.run_or_raise(args, kwargs)

        wrapper.lookup = guarded.lookup
        wrapper.forget = guarded.forget
        return cast("Idempotent[P, R]", wrapper)

    return decorate


def _check(function: Any) -> None:
    """Refuses what cannot be run once."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{_name(function)} is a generator: what it yields is given out before it has ended, and cannot be replayed; "
            "return a list, or guard the function that uses it"
        )
    if isinstance(function, (classmethod, staticmethod)):
        kind = type(function).__name__
        raise InvalidInput(f"put @{kind} above @store.idempotent: the function itself is guarded")
    if isinstance(function, type) or not callable(function):
        raise InvalidInput(f"{function!r} is no function; guard the function or method that does the work")
