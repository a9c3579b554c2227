"""What the models of all nouns share."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

A_MOMENT = "2026-11-21T10:43:36.120Z"


class Asked(BaseModel):
    """A body or a query that comes in: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, regex_engine="rust-regex")


class Shown(BaseModel):
    """A body that goes out."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def examples(*bodies: Mapping[str, Any]) -> ConfigDict:
    """Let a model show these bodies in the OpenAPI."""
    return ConfigDict(json_schema_extra={"examples": [dict(body) for body in bodies]})
