"""A request that makes no sense is refused in one line that names the field."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.reason import Reason, sentence
from leasehold.model.request import LEASE_TYPES, LeaseType, Request, check_request

GOOD: dict[str, Any] = {
    "id": 1,
    "lease_type": LeaseType.MIGRATABLE,
    "vms": 2,
    "duration_ms": 1000,
    "submit_ms": 0,
    "ready_ms": 5,
    "deadline_ms": 2000,
}


def test_a_request_that_makes_sense_comes_back_as_it_is() -> None:
    request = Request(**GOOD)
    assert check_request(request) is request


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vms", 0),
        ("vms", -3),
        ("vms", 2.5),
        ("vms", math.nan),
        ("vms", True),
        ("vms", "2"),
        ("duration_ms", 0),
        ("duration_ms", math.inf),
        ("duration_ms", 1000.0),
        ("submit_ms", -1),
        ("memory_mib", 0),
        ("deadline_ms", 5),
        ("deadline_ms", math.nan),
    ],
)
def test_a_value_that_makes_none_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidField) as caught:
        check_request(Request(**GOOD | {field: value}))
    assert str(caught.value).startswith(f"{field}: got {value!r}, expected ")
    assert "\n" not in str(caught.value)


def test_ready_before_it_was_submitted() -> None:
    with pytest.raises(InvalidField, match="ready_ms: got 5, expected the submit time or later"):
        check_request(Request(**GOOD | {"submit_ms": 6}))


@pytest.mark.parametrize("wrong", [{"domain": ""}, {"vms": 1}, {"on_nodes": ("n1", "n1")}])
def test_nodes_are_those_of_one_site_and_one_for_each_vm(wrong: dict[str, Any]) -> None:
    request = Request(1, LeaseType.SUSPENDABLE, 2, 1000, 0, 0, domain="a", on_nodes=("n1", "n2"))
    assert check_request(request) is request
    with pytest.raises(InvalidField, match=r"on_nodes: got .* different nodes of the site that it is bound to"):
        check_request(replace(request, **wrong))


@pytest.mark.parametrize("kind", [LeaseType.CANCELABLE, LeaseType.SUSPENDABLE])
def test_best_effort_has_no_deadline(kind: LeaseType) -> None:
    with pytest.raises(InvalidField, match=f"a {kind.label} lease promises no deadline"):
        check_request(Request(**GOOD | {"lease_type": kind}))


def test_a_local_request_is_non_preemptable() -> None:
    with pytest.raises(InvalidField, match="type: got 'migratable', expected non-preemptable"):
        check_request(Request(**GOOD | {"site": "a"}))


@pytest.mark.parametrize("site", [None, "a"])
def test_a_model_of_a_gpu_says_nothing_without_a_gpu(site: str | None) -> None:
    kind = LeaseType.CANCELABLE if site is None else LeaseType.NON_PREEMPTABLE
    with pytest.raises(InvalidField, match="gpu_milli: got 0, expected more than 0, of the model a100"):
        check_request(Request(1, kind, 1, 1000, 0, 0, site=site, gpu_model="a100"))


NUMBERS = st.sampled_from(sorted(GOOD.keys() - {"id", "lease_type"}))


@given(st.dictionaries(NUMBERS, st.integers() | st.floats()))
def test_whatever_the_numbers_it_is_accepted_or_refused_and_nothing_else(values: dict[str, Any]) -> None:
    try:
        request = check_request(Request(**GOOD | values))
    except InvalidField:
        return
    assert request.vms >= 1
    assert 0 <= request.submit_ms <= request.ready_ms


def test_the_types_are_ordered_by_value_and_known_by_their_labels() -> None:
    assert list(LEASE_TYPES) == ["cancelable", "suspendable", "migratable", "non-preemptable"]
    assert [kind.is_best_effort for kind in LeaseType] == [True, True, False, False]


def test_an_unknown_name_offers_the_nearest() -> None:
    error = UnknownName("policy", "conservativ", ["easy", "conservative"])
    expected = "one of conservative, easy (did you mean 'conservative'?)"
    assert str(error) == f"policy: got 'conservativ', expected {expected}"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    assert sentence(reason)
