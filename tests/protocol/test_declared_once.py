"""A field that a model gets in one place arrives everywhere; and what the models promise holds."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, Field

from leasehold.cli.live.leases import COLUMNS
from leasehold.cli.live.names import ASKS, ROLES, SIDES, WINDOWS
from leasehold.cli.live.table import columns_of, pick, rows
from leasehold.cli.screen import answer_json
from leasehold.client.calls import read
from leasehold.gateway.peering import AskWhen
from leasehold.model.errors import InvalidField
from leasehold.protocol import (
    activity,
    agreements,
    coallocations,
    jobs,
    leases,
    nodes,
    peers,
    plans,
    problems,
    sites,
    tokens,
    usage,
)
from leasehold.protocol.base import RequestModel, ResponseModel
from leasehold.protocol.fields import Moment, OrNone
from leasehold.protocol.leases import Lease, LeaseSpec
from leasehold.protocol.tokens import Role
from leasehold.protocol.usage import By
from leasehold.sharing.records import AgreementSide

MODULES = (
    activity,
    *(agreements, coallocations, plans, jobs, leases, nodes, peers, problems, sites),
    *(tokens, usage),
)


def models(kind: type[BaseModel]) -> Iterator[type[Any]]:
    for module in MODULES:
        for model in vars(module).values():
            if isinstance(model, type) and issubclass(model, kind) and model.__module__ == module.__name__:
                yield model


def examples(model: type[BaseModel]) -> list[dict[str, Any]]:
    extra = model.model_config.get("json_schema_extra")
    return extra["examples"] if isinstance(extra, dict) else []  # type: ignore[return-value]  # ours have no others


class LongerLease(Lease):
    """A lease with one field more, which is declared here and nowhere else."""

    inspected_at: OrNone[Moment] = Field(description="When somebody looked at it last.")


def test_a_field_that_is_added_in_one_place_arrives_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    app = FastAPI()

    @app.get("/lease")
    def show() -> LongerLease:
        raise NotImplementedError

    schema = app.openapi()["components"]["schemas"]["LongerLease"]
    assert schema["properties"]["inspected_at"]["description"] == "When somebody looked at it last."
    assert "inspected_at" in schema["required"]

    (told,) = examples(Lease)
    record = read(LongerLease, json.dumps(told | {"inspected_at": "2026-11-21T10:43:36.120Z"}))
    assert record.inspected_at == datetime(2026, 11, 21, 10, 43, 36, 120_000, UTC)
    assert read(LongerLease, json.dumps(told)).inspected_at is None  # of a gateway that does not know it yet
    assert not hasattr(read(Lease, record.model_dump_json()), "inspected_at")  # nor does this client

    answer_json({"lease": record})
    assert json.loads(capsys.readouterr().out)["lease"]["inspected_at"] == "2026-11-21T10:43:36.120Z"

    (column,) = pick(columns_of(LongerLease, {}), "inspected")
    assert column.head == "INSPECTED"
    assert rows([record], [column], datetime.now(UTC))[0][0].startswith("2026-11-2")


def test_every_field_of_a_lease_can_be_a_column() -> None:
    assert len(COLUMNS) >= len(Lease.model_fields)


@pytest.mark.parametrize("model", [model for model in models(ResponseModel) if examples(model)])
def test_a_record_comes_back_as_it_went(model: type[ResponseModel]) -> None:
    for example in examples(model):
        record = read(model, json.dumps(example))
        told = record.to_json()
        assert {key: value for key, value in told.items() if key in example} == example
        assert read(model, json.dumps(told)) == record


@pytest.mark.parametrize("model", list(models(ResponseModel)))
def test_a_later_gateway_may_say_more(model: type[ResponseModel]) -> None:
    for example in examples(model):
        assert read(model, json.dumps(example | {"mood": "fine"})) == read(model, json.dumps(example))


@pytest.mark.parametrize("model", [model for model in models(RequestModel) if examples(model)])
def test_what_is_asked_for_is_sent_as_it_was_said(model: type[RequestModel]) -> None:
    for example in examples(model):
        assert model(**model(**example).to_json()) == model(**example)


def test_what_cannot_be_accepted_is_one_line_with_field_value_and_what_was_expected() -> None:
    with pytest.raises(InvalidField, match=r"^vms: got 0, expected at least 1$"):
        LeaseSpec(vms=0, duration_s=1)
    with pytest.raises(InvalidField, match=r"^durations_s: got 1, expected one of .*did you mean 'duration_s'"):
        LeaseSpec.of(vms=1, duration_s=1, durations_s=1)


def test_names_complete_as_they_are() -> None:
    assert set(ROLES) == set(Role)
    assert set(ASKS) == set(AskWhen)
    assert set(SIDES) == set(AgreementSide)
    assert set(WINDOWS) == set(By) - {By.TOTAL}
