"""The client knows what the service has: every route, every field, and what may be missing."""

import re
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, get_type_hints
from unittest.mock import MagicMock

import pytest

from leasehold.cli.live.completion import ROLES
from leasehold.client import (
    calls,
    coallocation_calls,
    coallocation_records,
    job_calls,
    job_records,
    records,
    sharing_calls,
    sharing_records,
)
from leasehold.client.calls import Agreement, Rights, Which, Wish
from leasehold.client.coallocation_calls import CoAllocationSpec
from leasehold.client.errors import Problem
from leasehold.client.job_calls import JobWish, WhichJobs
from leasehold.client.question import Call
from leasehold.client.reading import read, wire
from leasehold.client.sharing_calls import WhichUse
from leasehold.client.watching import PATH
from leasehold.jobs.job import JobState
from leasehold.service.api.app import create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.principal import Role

SERVICE = MagicMock()  # its routes are only declared here
DOCUMENT = create_app(SERVICE, SERVICE, SERVICE, ApiSettings(version="0")).openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]

RECORDS = {
    "Lease": records.Lease,
    "Entry": records.Entry,
    "Change": records.Change,
    "Site": records.Site,
    "CapabilitiesShown": records.Capabilities,
    "VmsShown": records.Occupancy,
    "WaitingShown": records.Queue,
    "OverheadShown": records.Overhead,
    "Peer": records.Peer,
    "WayShown": records.Way,
    "PeerHas": records.Lent,
    "Agreement": sharing_records.UsageAgreement,
    "RevisionShown": sharing_records.Revision,
    "SignatureShown": sharing_records.Signature,
    "Penalty": sharing_records.Penalty,
    "UseShown": sharing_records.Use,
    "Usage": sharing_records.Usage,
    "ShareShown": sharing_records.Share,
    "LineShown": sharing_records.StatementLine,
    "Statement": sharing_records.Statement,
    "ShownFile": coallocation_records.InputFile,
    "CoAllocationComponent": coallocation_records.CoAllocationComponent,
    "CoAllocation": coallocation_records.CoAllocation,
    "Barred": coallocation_records.Barred,
    "ComponentEnvironment": coallocation_records.ComponentEnvironment,
    "Elsewhere": coallocation_records.Elsewhere,
    "DomainOffer": coallocation_records.DomainOffer,
    "RuleReading": coallocation_records.RuleReading,
    "LeaseExplanation": coallocation_records.LeaseExplanation,
    "CoAllocationExplanation": coallocation_records.CoAllocationExplanation,
    "Job": job_records.Job,
    "JobNeeds": job_records.JobNeeds,
    "JobInputShown": job_records.JobInput,
    "Attempt": job_records.Attempt,
    "Result": job_records.JobResult,
    "NodeVerdict": job_records.NodeVerdict,
    "NodeGroup": job_records.NodeGroup,
    "JobPlace": job_records.JobPlace,
    "JobProspect": job_records.JobProspect,
    "Node": job_records.Node,
    "Image": job_records.Image,
    "Token": records.Token,
    "NewToken": records.NewToken,
    "Caller": records.Caller,
}

WISH: Wish = {"vms": 1, "duration_s": 1}
TOGETHER: CoAllocationSpec = {"components": [{"vms": 1}, {"vms": 2, "site": "das3"}], "duration_s": 1}
JOB: JobWish = {"command": ["true"], "execution_s": 60}
RIGHTS: Rights = {"consumer": "physics", "roles": ["member"]}
AGREEMENT: Agreement = {"url": "https://north.example.org", "token": "secret"}
TERMS = {"name": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "kind": "no-limit"}
CALLS: list[Call[Any]] = [
    calls.submit(WISH),
    calls.explain(WISH),
    calls.leases(Which()),
    calls.lease(42),
    calls.cancel(42),
    calls.extend(42, 60),
    calls.journal(42),
    calls.console(42),
    calls.sites(),
    calls.site("das3"),
    calls.drain("das3", ""),
    calls.resume("das3"),
    calls.forget_site("das3"),
    calls.peers(),
    calls.peer("north"),
    calls.keep_peer("north", AGREEMENT),
    calls.remove_peer("north"),
    coallocation_calls.submit_coallocation(TOGETHER),
    coallocation_calls.coallocations(),
    coallocation_calls.coallocation(7),
    coallocation_calls.cancel_coallocation(7),
    coallocation_calls.explain_coallocation(TOGETHER),
    job_calls.submit_job(JOB),
    job_calls.explain_job(JOB),
    job_calls.jobs(WhichJobs()),
    job_calls.job(7),
    job_calls.cancel_job(7),
    job_calls.job_result(7),
    job_calls.nodes(),
    job_calls.images(),
    sharing_calls.agreements(),
    sharing_calls.agreement("atlas-at-das3"),
    sharing_calls.propose(TERMS),
    sharing_calls.amend(TERMS),
    sharing_calls.sign("atlas-at-das3", "provider", 1),
    sharing_calls.publish("atlas-at-das3", published=True),
    sharing_calls.suspend("atlas-at-das3", ""),
    sharing_calls.resume("atlas-at-das3"),
    sharing_calls.revoke("atlas-at-das3", ""),
    sharing_calls.penalties(),
    sharing_calls.lift(3),
    sharing_calls.usage(WhichUse()),
    sharing_calls.statement("2026-10", "atlas"),
    calls.create_token(RIGHTS),
    calls.tokens(),
    calls.revoke_token("3f9a6c1b2d04"),
    calls.caller(),
    calls.alive(),
    calls.why_not_ready(),
]
NOT_FOR_CLIENTS = {("GET", "/metrics")}
"""Nor are the messages between gateways and their sites."""


def operations() -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}


def operation_of(method: str, path: str) -> tuple[str, str]:
    """Find the route for a path: the one with the fewest blanks."""
    found = [
        (word, template)
        for word, template in operations()
        if word == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
    ]
    return min(found, key=lambda operation: operation[1].count("{"))


def names(kind: Any) -> set[str]:
    return set(get_type_hints(kind))


def test_every_route_has_a_method() -> None:
    asked = {operation_of(call.method, call.path) for call in CALLS} | {("GET", PATH)}
    theirs = {(method, path) for method, path in operations() if not path.endswith("/messages")}
    assert asked == theirs - NOT_FOR_CLIENTS


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_the_fields_of_the_service(name: str) -> None:
    assert names(RECORDS[name]) == set(SCHEMAS[name]["properties"])


@pytest.mark.parametrize("name", RECORDS)
def test_what_a_record_needs_is_always_there(name: str) -> None:
    needed = {field.name for field in fields(RECORDS[name]) if field.default is MISSING}
    assert needed <= set(SCHEMAS[name]["required"])


@pytest.mark.parametrize("name", RECORDS)
def test_what_may_be_null_may_be_none(name: str) -> None:
    hints = get_type_hints(RECORDS[name])
    properties = SCHEMAS[name]["properties"]
    nullable = {key for key, value in properties.items() if {"type": "null"} in value.get("anyOf", [])}
    assert nullable <= {key for key, hint in hints.items() if isinstance(None, hint_types(hint))}


def hint_types(hint: Any) -> tuple[type, ...]:
    return tuple(one for one in getattr(hint, "__args__", ()) if isinstance(one, type) and one is not Any)


@pytest.mark.parametrize("name", [name for name in RECORDS if "examples" in SCHEMAS[name]])
def test_the_services_examples_can_be_read(name: str) -> None:
    for example in SCHEMAS[name]["examples"]:
        told = wire(read(RECORDS[name], example))
        assert {key: value for key, value in told.items() if value is not None} == example


def test_a_request_can_say_all_that_can_be_said() -> None:
    assert names(Wish) - {"idempotency_key"} == set(SCHEMAS["LeaseRequest"]["properties"])
    assert names(Rights) == set(SCHEMAS["TokenRequest"]["properties"])
    assert names(Agreement) == set(SCHEMAS["PeerRequest"]["properties"])
    assert names(JobWish) - {"idempotency_key"} == set(SCHEMAS["JobSubmission"]["properties"])


def test_leases_can_be_chosen_by_all_that_they_can_be_chosen_by() -> None:
    theirs = {one["name"] for one in DOCUMENT["paths"]["/v1/leases"]["get"]["parameters"]}
    everything = Which(states=["held"], site="a", consumer="b", open=True, since=datetime.now(UTC))
    ours = {name for name, _ in calls.leases(everything).query} | {"cursor"}
    assert ours == theirs


def test_jobs_can_be_chosen_by_all_that_they_can_be_chosen_by() -> None:
    theirs = {one["name"] for one in DOCUMENT["paths"]["/v1/jobs"]["get"]["parameters"]}
    everything = WhichJobs(states=["failed"], site="a", consumer="b", open=True, since=datetime.now(UTC))
    assert {name for name, _ in job_calls.jobs(everything).query} | {"cursor"} == theirs


def test_nodes_can_be_chosen_by_all_that_they_can_be_chosen_by() -> None:
    theirs = {one["name"] for one in DOCUMENT["paths"]["/v1/nodes"]["get"]["parameters"]}
    assert {name for name, _ in job_calls.nodes("a", ["gcc"], brief=True).query} | {"cursor"} == theirs


def test_the_states_of_jobs_that_are_over_are_those_of_the_core() -> None:
    assert {state.value for state in JobState if state.is_final} == job_records.FINAL


def test_use_can_be_chosen_by_all_that_it_can_be_chosen_by() -> None:
    theirs = {one["name"] for one in DOCUMENT["paths"]["/v1/usage"]["get"]["parameters"]}
    at = datetime.now(UTC)
    everything = WhichUse(consumer="atlas", domain="das3", since=at, until=at, by="day", depth=2)
    assert {name for name, _ in sharing_calls.usage(everything).query} == theirs


def test_a_problem_says_all_that_the_service_says() -> None:
    assert set(SCHEMAS["Problem"]["properties"]) - {"type", "instance"} <= names(Problem)


def test_roles_complete_as_they_are() -> None:
    assert set(ROLES) == set(Role)
