"""Types of Python beyond those of JSON: how they are written into results and payloads, and read back. Never by pickle."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import sys
import types
import typing
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from . import _errors

_UTC = dt.timezone.utc


class NotEncodable(_errors.InvalidInput):
    """A value that cannot be written."""


def _refuse(value: Any, advice: str) -> NotEncodable:
    kind = type(value)
    return NotEncodable(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be written; {advice}")


# Results. `lower` gives a word and a content of simpler types, and whether what is read back is of the very same type.


def lower(value: Any) -> tuple[str, Any, bool]:
    """A word and a simpler content for a value that the native half does not know; whether it reads back as it was."""
    kind = type(value)
    known = _LOWER.get(kind)
    if known is not None:
        return known(value)
    if isinstance(value, enum.Enum):
        return "enum", [_name(kind), value.value], True
    fields = members(value)
    if fields is not None:
        return "object", [_name(kind), fields], False
    for base, low in _LOWER.items():
        if isinstance(value, base):
            if base is dt.datetime and getattr(value, "nanosecond", None):
                raise _refuse(value, "it has nanoseconds, which datetime has not")
            return (*low(value)[:2], False)
    raise _refuse(value, "return one of the documented types, a dataclass, or a pydantic model with returns=")


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def members(value: Any) -> dict[str, Any] | None:
    """The members of a dataclass, a pydantic model or a named tuple; ``None`` for anything else."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
    if _is_model(kind):
        fields = {name: getattr(value, name) for name in kind.model_fields}
        return fields | (value.model_extra or {})
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value, strict=False))
    return None


def _is_model(kind: type) -> bool:
    """Whether it is a pydantic model (version 2), without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _zone(value: dt.datetime | dt.time) -> Any:
    """What brings the zone back: nothing, the offset's place in the text, or the name of the zone."""
    return getattr(value.tzinfo, "key", None)


def _datetime(value: dt.datetime) -> tuple[str, Any, bool]:
    zone = _zone(value)
    if zone is not None:
        return "datetime", [value.replace(tzinfo=None).isoformat(), value.fold, zone], True
    if value.fold:
        return "datetime", [value.isoformat(), 1], True
    return "datetime", value.isoformat(), value.tzinfo is None or type(value.tzinfo) is dt.timezone


def _time(value: dt.time) -> tuple[str, Any, bool]:
    zone = _zone(value)
    if zone is not None:
        return "time", [value.replace(tzinfo=None).isoformat(), value.fold, zone], True
    if value.fold:
        return "time", [value.isoformat(), 1], True
    return "time", value.isoformat(), value.tzinfo is None or type(value.tzinfo) is dt.timezone


_LOWER: dict[type, Callable[[Any], tuple[str, Any, bool]]] = {
    Decimal: lambda value: ("decimal", str(value), True),
    dt.datetime: _datetime,
    dt.date: lambda value: ("date", value.isoformat(), True),
    dt.time: _time,
    dt.timedelta: lambda value: ("timedelta", [value.days, value.seconds, value.microseconds], True),
    uuid.UUID: lambda value: ("uuid", str(value), True),
    bytearray: lambda value: ("bytearray", bytes(value), True),
    complex: lambda value: ("complex", [value.real, value.imag], True),
}


def lift(word: str, content: Any) -> Any:
    """The value of a word and a content; the other direction of :func:`lower`."""
    try:
        read = _LIFT[word]
    except KeyError:
        raise _errors.InvalidInput(
            f"the kept result has a value of the kind {word!r}, which this semel does not know; read it with a newer one"
        ) from None
    return read(content)


def _moment(kind: Any) -> Any:
    def read(content: Any) -> Any:
        if isinstance(content, str):
            return kind.fromisoformat(content)
        text, fold, *zone = content
        value = kind.fromisoformat(text).replace(fold=fold)
        if zone:
            import zoneinfo

            value = value.replace(tzinfo=zoneinfo.ZoneInfo(zone[0]))
        return value

    return read


def _class(name: str) -> type:
    """A class of a module that is loaded by now. What is stored imports nothing."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise _errors.InvalidInput(
            f"the kept result is a {path} of the module {module}, which is not loaded or has none; import it, or pass returns="
        )
    return found


def _enum(content: Any) -> Any:
    kind = _class(content[0])
    if not issubclass(kind, enum.Enum):
        raise _errors.InvalidInput(f"the kept result is a member of {content[0]}, which is no Enum any more")
    return kind(content[1])


def _object(content: Any) -> Any:
    return build(_class(content[0]), content[1])


_LIFT: dict[str, Any] = {
    "decimal": Decimal,
    "datetime": _moment(dt.datetime),
    "date": dt.date.fromisoformat,
    "time": _moment(dt.time),
    "timedelta": lambda content: dt.timedelta(*content),
    "uuid": uuid.UUID,
    "bytearray": bytearray,
    "complex": lambda content: complex(*content),
    "enum": _enum,
    "object": _object,
}


def build(kind: type, fields: dict[str, Any]) -> Any:
    """A dataclass, pydantic model or named tuple with these members."""
    if _is_model(kind):
        return kind.model_validate(fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        known = dataclasses.fields(kind)
        value = kind(**{f.name: fields[f.name] for f in known if f.init and f.name in fields})
        for f in known:
            if not f.init and f.name in fields:
                object.__setattr__(value, f.name, fields[f.name])
        return value
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(**fields)
    raise _errors.InvalidInput(
        f"the kept result is a {kind.__qualname__}, which is no dataclass, pydantic model or named tuple any more"
    )


# `returns=`: the type that a result is read as, whatever the name of its class was when it was written.


class Raw:
    """A class value as it is kept, before `returns=` says what it is."""

    __slots__ = ("content", "word")

    def __init__(self, word: str, content: Any) -> None:
        self.word = word
        self.content = content


def conform(value: Any, kind: Any) -> Any:
    """The value as `returns=` has it. Members and items of known containers too."""
    if isinstance(value, Raw):
        return _conform_raw(value, kind)
    origin = typing.get_origin(kind)
    if origin is None:
        return _conform_plain(value, kind)
    arguments = typing.get_args(kind)
    if origin is typing.Annotated:
        return conform(value, arguments[0])
    if origin is typing.Union or origin is types.UnionType:
        return _conform_union(value, arguments)
    if origin in (list, set, frozenset) and isinstance(value, (list, set, frozenset)):
        return type(value)(conform(item, arguments[0]) for item in value)
    if origin is tuple and isinstance(value, tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(conform(item, arguments[0]) for item in value)
        if len(arguments) == len(value):
            return tuple(map(conform, value, arguments))
    if origin is dict and isinstance(value, dict):
        return {conform(key, arguments[0]): conform(item, arguments[1]) for key, item in value.items()}
    return loose(value)


def _conform_raw(raw: Raw, kind: Any) -> Any:
    if isinstance(kind, type):
        if raw.word == "object" and (_is_model(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
            hints = {} if _is_model(kind) else _hints(kind)
            fields = {name: conform(item, hints.get(name)) for name, item in raw.content[1].items()}
            return build(kind, fields)
        if raw.word == "enum" and issubclass(kind, enum.Enum):
            return kind(loose(raw.content[1]))
    if typing.get_origin(kind) is typing.Annotated:
        return _conform_raw(raw, typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _conform_union(raw, typing.get_args(kind))
    return loose(raw)


def _conform_plain(value: Any, kind: Any) -> Any:
    """A mapping is read as the class that `returns=` names: so that work may return what it likes to write."""
    if isinstance(value, dict) and isinstance(kind, type):
        if _is_model(kind):
            return kind.model_validate(loose(value))  # type: ignore[attr-defined]
        if dataclasses.is_dataclass(kind):
            hints = _hints(kind)
            return build(kind, {name: conform(item, hints.get(name)) for name, item in value.items()})
    if isinstance(kind, type) and issubclass(kind, enum.Enum) and not isinstance(value, kind):
        return kind(loose(value))
    return loose(value)


def _conform_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    if value is None:
        return None
    classes = [kind for kind in kinds if kind is not type(None)]
    if len(classes) == 1:
        return conform(value, classes[0])
    if isinstance(value, Raw):
        named = [kind for kind in classes if isinstance(kind, type) and _name(kind) == value.content[0]]
        if named:
            return _conform_raw(value, named[0])
    return loose(value)


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # a name that cannot be resolved here: the kept class names are used
        return {}


def loose(value: Any) -> Any:
    """The value with every kept class by its own name."""
    if isinstance(value, Raw):
        return lift(value.word, loose(value.content))
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(loose, value))
    if type(value) is dict:
        return {loose(key): loose(item) for key, item in value.items()}
    return value


# Payloads.


def payload(value: Any) -> tuple[str, Any]:
    """What stands for a value in the canonical form: a word of :data:`_PAYLOAD`, or ``object`` with the class's name."""
    kind = type(value)
    known = _PAYLOAD.get(kind)
    if known is not None:
        return known(value)
    if isinstance(value, enum.Enum):
        return f"enum {kind.__name__}", value.value
    fields = members(value)
    if fields is not None:
        return f"class {kind.__name__}", fields
    for base, write in _PAYLOAD.items():
        if isinstance(value, base):
            if base is dt.datetime and getattr(value, "nanosecond", None):
                raise _refuse(value, "it has nanoseconds, which datetime has not")
            return write(value)
    raise _refuse(value, "pass payload= with what makes two requests the same")


def _payload_decimal(value: Decimal) -> tuple[str, Any]:
    if not value.is_finite():
        raise NotEncodable("NaN and the infinities have no decimal value; send a finite number, None or text")
    return "number", str(value)


def _payload_datetime(value: dt.datetime) -> tuple[str, Any]:
    if value.tzinfo is None or value.utcoffset() is None:
        return "datetime", value.replace(tzinfo=None, fold=0).isoformat()
    return "datetime", value.astimezone(_UTC).isoformat()


def _payload_time(value: dt.time) -> tuple[str, Any]:
    return "time", value.replace(fold=0).isoformat()


_PAYLOAD: dict[type, Callable[[Any], tuple[str, Any]]] = {
    Decimal: _payload_decimal,
    dt.datetime: _payload_datetime,
    dt.date: lambda value: ("date", value.isoformat()),
    dt.time: _payload_time,
    dt.timedelta: lambda value: ("timedelta", [value.days, value.seconds, value.microseconds]),
    uuid.UUID: lambda value: ("uuid", str(value)),
    bytearray: lambda value: ("bytes", bytes(value).hex()),
    memoryview: lambda value: ("bytes", bytes(value).hex()),
}


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=_UTC)


def moment(us: int) -> dt.datetime:
    """A moment, given in microseconds since the Unix epoch, in UTC."""
    return _EPOCH + dt.timedelta(microseconds=us)
