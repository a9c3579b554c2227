"""The OpenAPI document reads as documentation, and says what is so."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from jsonschema_rs import Draft202012Validator, meta
from pydantic import BaseModel
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tests.service.api.house import House

from leasehold.model.request import LEASE_TYPES
from leasehold.protocol import (
    agreements,
    jobs,
    leases,
    nodes,
    problems,
    sites,
    tokens,
    usage,
)
from leasehold.protocol.base import RequestModel, ResponseModel
from leasehold.protocol.fields import MEANINGS, LeaseTypeName
from leasehold.protocol.files import FileSpec
from leasehold.protocol.problems import MEDIA_TYPE, Kind
from leasehold.service.api.routers.messages import Exchange

MODULES = (agreements, jobs, leases, nodes, problems, sites, tokens, usage)
MODELS = sorted(
    {
        model
        for module in MODULES
        for model in vars(module).values()
        if isinstance(model, type)
        and issubclass(model, (RequestModel, ResponseModel))
        and model not in {RequestModel, ResponseModel}
    },
    key=lambda model: model.__name__,
)


@pytest.fixture
def document(house: House) -> dict[str, Any]:
    answer = house.ask("GET", "/v1/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_operation_has_a_name_a_noun_and_a_sentence(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(names) == len(set(names))
    for name, operation in operations(document).items():
        assert set(operation["tags"]) <= tags, name
        assert operation["description"].endswith("."), name


def test_every_operation_declares_its_problems(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        wanted = {"400", "422", "429", "500", "503"}
        wanted |= {"401", "403"} if "security" in operation else set()
        wanted |= {"413", "415"} if "requestBody" in operation else set()
        responses = operation["responses"]
        assert wanted <= set(responses), name
        for status, response in responses.items():
            if status >= "400":
                assert set(response["content"]) == {MEDIA_TYPE}, name
        assert "Retry-After" in responses["429"]["headers"]


def test_every_operation_but_the_open_ones_takes_a_token(document: dict[str, Any]) -> None:
    open_ones = {name for name, operation in operations(document).items() if "security" not in operation}
    assert open_ones == {"GET /healthz", "GET /readyz"}


def test_every_field_that_is_not_plain_by_its_name_is_described() -> None:
    plain = {
        *("id", "name", "type", "state", "site", "at", "reason", "explanation", "next", "note", "detail"),
        *(
            "consumer",
            "group",
            "groups",
            "roles",
            "sites",
            "leases",
            "entries",
            "tokens",
            "errors",
            "command",
        ),
        *("vms", "local", "guests", "waiting", "memory_mib", "preemptions", "migrations", "capabilities"),
        *("submitted_at", "ready_at", "deadline_at", "ended_at", "created_at", "expires_at", "revoked_at"),
        *("drained_by", "last_seen_at", "speed_mips", "title", "free"),
    }
    bare = {
        f"{model.__name__}.{name}"
        for model in MODELS
        for name, field in model.model_fields.items()
        if not field.description and name not in plain
    }
    assert bare == set()


@pytest.mark.parametrize("model", [model for model in MODELS if model.model_config.get("json_schema_extra")])
def test_an_example_is_one(model: type[BaseModel]) -> None:
    extra = model.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    examples = extra["examples"]
    assert isinstance(examples, list)
    for example in examples:
        model.model_validate(example)


def test_the_types_of_leases_are_those_of_the_model() -> None:
    assert set(get_args(LeaseTypeName)) == set(LEASE_TYPES)


def test_kinds_of_problems_have_names_of_their_own() -> None:
    assert len({kind.urn for kind in Kind}) == len({kind.title for kind in Kind}) == len(list(Kind))
    assert Kind.NO_SUCH_LEASE.urn == "urn:leasehold:problem:no-such-lease"


def test_the_document_needs_nothing_from_elsewhere(document: dict[str, Any]) -> None:
    assert document["info"] == document["info"] | {"title": "Leasehold", "version": "1.2.3"}
    references = str(document).split("'$ref': '")[1:]
    assert all(one.startswith("#/components/schemas/") for one in references)
    named = {one.partition("'")[0].rpartition("/")[2] for one in references}
    assert named <= set(document["components"]["schemas"])


def test_it_is_what_it_calls_itself(house: House) -> None:
    """By the schema of OpenAPI 3.1 documents, and each schema in it by the dialect that 3.1 names."""
    document = house.ask("GET", "/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1.")
    assert [error.message for error in Draft202012Validator(OPENAPI_31).iter_errors(document)] == []
    for schema in document["components"]["schemas"].values():
        meta.validate(schema)


def test_the_check_of_it_can_fail(house: House) -> None:
    document = house.ask("GET", "/v1/openapi.json").json()
    stream = document["paths"]["/v1/changes"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    stream["itemSchema"] = {"type": "object"}
    assert not Draft202012Validator(OPENAPI_31).is_valid(document)


@pytest.mark.parametrize("model", [Exchange, FileSpec, *(one for one in MODELS if issubclass(one, RequestModel))])
def test_every_pattern_that_may_not_match_can_be_said_in_words(model: type[BaseModel]) -> None:
    assert set(patterns_in(model.model_json_schema())) <= MEANINGS.keys()


def patterns_in(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        for inner in part.values():
            yield from patterns_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from patterns_in(inner)
