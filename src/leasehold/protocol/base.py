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
        """Build one from untyped options, ignoring empty ones; raises InvalidField."""
        return cls(**{name: value for name, value in options.items() if value not in _EMPTY})

    def said(self) -> dict[str, Any]:
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
        """Omit the defaults, which exist only for reading responses of an older gateway."""
        made = handler(schema)
        for field in handler.resolve_ref_schema(made).get("properties", {}).values():
            field.pop("default", None)
        return made

    def told(self) -> dict[str, Any]:
        """Return its JSON representation."""
        return self.model_dump(mode="json")


class NextPage(ResponseModel):
    """One page of a list, with the cursor of the next."""

    next: str | None = Field(description="The `cursor` of the next page; null: this is the last.")


def examples(*bodies: Mapping[str, Any]) -> ConfigDict:
    """Attach these example bodies to a model's OpenAPI schema."""
    return ConfigDict(json_schema_extra={"examples": [dict(body) for body in bodies]})
