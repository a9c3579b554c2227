"""From JSON to records and back, by the types that the records declare."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from leasehold.client.errors import BadAnswer
from leasehold.model.lease import LeaseState
from leasehold.model.request import LEASE_TYPES, LeaseType

R = TypeVar("R")
Reader = Callable[[Any], Any]


def read(kind: type[R], values: object) -> R:
    """Make a record of this kind from what came as JSON; keys that it has not are left out.

    Raises BadAnswer for a key that is missing and has no default, and for a value that is none for its field.
    """
    if not isinstance(values, Mapping):
        raise BadAnswer(f"the gateway's answer is no {kind.__name__.lower()}: got {values!r:.80}")
    return kind(**{key: _value(kind, key, reader, values[key]) for key, reader in _asked(kind, values)})


def wire(value: object) -> Any:  # noqa: ANN401 - JSON
    """Give a record, or what is in one, as it is on the wire: the reverse of `read`."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: wire(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, LeaseType):
        return value.label
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return [wire(one) for one in value]
    return value


def _asked(kind: type, values: Mapping[str, Any]) -> list[tuple[str, Reader]]:
    """Give the readers of the keys that came; BadAnswer where one is missing."""
    readers = _readers(kind)
    for field in fields(kind):
        if field.name not in values and not _has_default(field):
            raise BadAnswer(f"the gateway's answer is no {kind.__name__.lower()}: it has no {field.name!r}")
    return [(key, reader) for key, reader in readers.items() if key in values]


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _value(kind: type, key: str, reader: Reader, value: object) -> object:
    try:
        return reader(value)
    except (ValueError, TypeError, KeyError) as error:
        name = kind.__name__.lower()
        raise BadAnswer(f"the gateway's answer is no {name}: its {key} is {value!r:.80}") from error


@cache
def _readers(kind: type) -> dict[str, Reader]:
    hints = get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in fields(kind)}


def _reader(hint: Any) -> Reader:  # noqa: ANN401 - any annotation
    """Say how a value of this type is read; the records declare no others."""
    origin = get_origin(hint)
    if origin is UnionType:
        return _or_none(next(_reader(one) for one in get_args(hint) if one is not type(None)))
    if origin is tuple:
        return _each(_reader(get_args(hint)[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(read, hint)
    return _PLAIN.get(hint) or _exactly(origin or hint)


def _or_none(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _each(reader: Reader) -> Reader:
    return lambda values: tuple(reader(value) for value in values)


def _exactly(kind: Any) -> Reader:  # noqa: ANN401 - a type or several
    """Take values of this type alone; a truth value is no number."""

    def take(value: object) -> object:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError
        return value

    return take


_PLAIN: dict[Any, Reader] = {
    LeaseType: LEASE_TYPES.__getitem__,
    LeaseState: LeaseState,
    datetime: datetime.fromisoformat,
    float: _exactly((int, float)),
}
