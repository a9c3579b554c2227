"""What the models of all nouns share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import Cursor, PageSize
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
        """Make one of options that may be empty, and then say nothing, and are not typed; raises InvalidField."""
        return cls(**{name: value for name, value in options.items() if value not in _EMPTY})

    def said(self) -> dict[str, Any]:
        """Give as JSON what was said of it; the gateway fills in the rest."""
        return self.model_dump(mode="json", exclude_unset=True, exclude_none=True)


class PageQuery(RequestModel):
    """Which page of a list."""

    limit: PageSize = 100
    cursor: Cursor = None


class ResponseModel(BaseModel):
    """A body that goes out. In the OpenAPI all of its fields are there always."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Leave the defaults out, which are for reading what a gateway of an earlier version says."""
        made = handler(schema)
        for field in handler.resolve_ref_schema(made).get("properties", {}).values():
            field.pop("default", None)
        return made

    def told(self) -> dict[str, Any]:
        """Give it as it is on the wire."""
        return self.model_dump(mode="json")


class NextPage(ResponseModel):
    """A part of a list, and where the next part begins."""

    next: str | None = Field(description="The `cursor` of the next page; null: this was the last.")


def examples(*bodies: Mapping[str, Any]) -> ConfigDict:
    """Let a model show these bodies in the OpenAPI."""
    return ConfigDict(json_schema_extra={"examples": [dict(body) for body in bodies]})
