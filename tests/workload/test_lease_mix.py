"""Mixes of lease types: shares, labels, refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix


def test_the_default_is_a_quarter_of_each() -> None:
    assert dict(EVEN_MIX.shares) == dict.fromkeys(LeaseType, 0.25)
    assert [EVEN_MIX.pick(place) for place in (0.0, 0.25, 0.5, 0.75)] == list(LeaseType)


def test_labels_name_the_types() -> None:
    mix = LeaseMix.named({"suspendable": 0.4, "cancelable": 0.1, "non-preemptable": 0.5})

    assert mix.pick(0.05) is LeaseType.CANCELABLE
    assert mix.pick(0.3) is LeaseType.SUSPENDABLE
    assert mix.pick(0.7) is LeaseType.NON_PREEMPTABLE


@given(st.permutations(list(LeaseType)), st.floats(0.0, 1.0))
def test_a_type_without_share_is_never_picked(kinds: list[LeaseType], place: float) -> None:
    mix = LeaseMix({kinds[0]: 0.3, kinds[1]: 0.7, kinds[2]: 0.0})

    assert mix.pick(place) in kinds[:2]


def test_the_order_in_which_shares_are_given_does_not_matter() -> None:
    one = LeaseMix({LeaseType.CANCELABLE: 0.5, LeaseType.MIGRATABLE: 0.5})
    other = LeaseMix({LeaseType.MIGRATABLE: 0.5, LeaseType.CANCELABLE: 0.5})

    assert [one.pick(place / 10) for place in range(10)] == [other.pick(place / 10) for place in range(10)]


def test_a_misspelt_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'suspendable'"):
        LeaseMix.named({"suspendible": 1.0})


@pytest.mark.parametrize(
    "shares",
    [{}, {"cancelable": 0.9}, {"cancelable": 1.5, "migratable": -0.5}, {"cancelable": float("nan")}],
)
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(InvalidField, match="share"):
        LeaseMix.named(shares)


@pytest.mark.parametrize("slack", [(-1.0, 3.0), (3.0, 1.0), (1.0, float("inf"))])
def test_slack_must_be_a_range(slack: tuple[float, float]) -> None:
    with pytest.raises(InvalidField, match="slack"):
        LeaseMix(slack=slack)
