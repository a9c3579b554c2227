"""What the models of all nouns share."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import Cursor, PageSize, planned, show_duration
from leasehold.protocol.wrong_fields import wrong_field

_EMPTY: tuple[object, ...] = (None, "", [], (), {})
A_MOMENT = "2026-11-21T10:43:36.120Z"


class RequestModel(BaseModel):
    """A body or a query. In Python, making one of values that cannot be accepted raises InvalidField."""

    model_config = ConfigDict(extra="forbid", frozen=True, regex_engine="rust-regex")

    if not TYPE_CHECKING:  # for a type checker, the arguments are the fields

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                first = error.errors()[0]
                wrong = wrong_field(first | {"loc": ("body", *first["loc"])}, list(type(self).model_fields))
                raise InvalidField(**wrong) from error

        __init__.__pydantic_base_init__ = True  # what is validated as part of a request keeps pydantic's errors

    @classmethod
    def of(cls, **options: object) -> Self:
        """Build one from untyped options, ignoring empty ones; raises InvalidField."""
        return cls(**{name: value for name, value in options.items() if value not in _EMPTY})

    def to_json(self) -> dict[str, Any]:
        """Return the fields that were set, as JSON; the gateway fills in the rest."""
        return self.model_dump(mode="json", exclude_unset=True, exclude_none=True)


class PageQuery(RequestModel):
    """Which page of a list."""

    limit: PageSize = 100
    cursor: Cursor = None


class ResponseModel(BaseModel):
    """A response body. In the OpenAPI all of its fields are required."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Omit the defaults, which exist only for reading responses of an older gateway; examples are full of them."""
        made = handler(schema)
        resolved = handler.resolve_ref_schema(made)
        fields = resolved.get("properties", {})
        defaults = {name: field.pop("default") for name, field in fields.items() if "default" in field}
        if "examples" in resolved and cls.model_config["json_schema_serialization_defaults_required"]:
            resolved["examples"] = [defaults | example for example in resolved["examples"]]
        return made

    @classmethod
    def of(cls, *sources: object, **given: object) -> Self:
        """Build one of what is given, and take each other field from the first source that has it.

        A moment ``ended_at`` is taken from ``ended_ms``, a duration ``idle_s`` from ``idle_ms``; None and, for a
        moment, -1 are none. Raises TypeError for a field that is not given and that no source has.
        """
        for field, place, name, shown in _taken(cls, tuple(map(type, sources)), frozenset(given)):
            value = getattr(sources[place], name)
            given[field] = value if shown is None else shown(value)
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """Return its JSON representation."""
        return self.model_dump(mode="json")


@cache
def _taken(
    model: type[ResponseModel], kinds: tuple[type, ...], given: frozenset[str]
) -> tuple[tuple[str, int, str, Callable[[Any], object] | None], ...]:
    """Find for each field that is not given its source, its name there, and how it is shown."""
    return tuple((field, *_source_of(model, field, kinds)) for field in model.model_fields if field not in given)


def _source_of(
    model: type[ResponseModel], field: str, kinds: tuple[type, ...]
) -> tuple[int, str, Callable[[Any], object] | None]:
    stem = field.removesuffix("_at").removesuffix("_s")
    of_time = _seconds if field.endswith("_s") else planned
    for name, shown in ((field, None), (f"{stem}_ms", of_time)):
        for place, kind in enumerate(kinds):
            if hasattr(kind, name):  # all are slotted, so that the class has what its instances have
                return place, name, shown
    raise TypeError(f"{model.__name__}.{field} is neither given nor in {', '.join(kind.__name__ for kind in kinds)}")


def _seconds(duration_ms: int | None) -> int | float | None:
    return None if duration_ms is None else show_duration(duration_ms)


class NextPage(ResponseModel):
    """One page of a list, with the cursor of the next."""

    next: str | None = Field(description="The `cursor` of the next page; null: this is the last.")


def examples(*bodies: Mapping[str, Any]) -> ConfigDict:
    """Attach these example bodies to a model's OpenAPI schema."""
    return ConfigDict(json_schema_extra={"examples": [dict(body) for body in bodies]})
