"""How agreements are applied: ``[sharing]``, what clusters have, what requests claim."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.configuration.declaration import Key
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import CLAIMS, RESOURCES, SHARING, SHARING_OF_RUN, SharingSpec
from leasehold.model.errors import InvalidField
from leasehold.sharing.broker_policies.registry import broker_policy_names


@given(
    st.builds(
        SharingSpec,
        without_agreement=st.sampled_from(["allow", "refuse"]),
        threshold=st.integers(0, 100),
        top_n=st.none() | st.integers(1, 10),
        broker_policy=st.sampled_from(broker_policy_names()),
        starts_at_ms=st.none() | st.integers(0, 10**13),
    )
)
def test_what_is_written_reads_as_the_same(spec: SharingSpec) -> None:
    assert SHARING_OF_RUN.read(Keys(SHARING_OF_RUN.to_dict(spec))) == spec


def test_without_a_word_everybody_is_let_in_and_no_rule_may_be_broken() -> None:
    settings = SHARING.read(Keys({})).settings()
    assert (settings.without_agreement, settings.threshold, settings.top_n) == ("allow", 0, None)


def test_a_service_has_no_second_zero() -> None:
    with pytest.raises(InvalidField, match=r"^starts_at: "):
        SHARING.read(Keys({"starts_at": "2026-09-01T00:00:00Z"}))


@pytest.mark.parametrize(
    "wrong",
    [{"without_agreement": "perhaps"}, {"threshold": -1}, {"top_n": 0}, {"broker_policy": "most-rooms"}],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as caught:
        SHARING.read(Keys(wrong))
    assert [caught.value.field] == list(wrong)


def test_a_cluster_has_resources_besides_its_slots() -> None:
    units = {"memory_mib": 65_536, "licence:matlab": 5, "service:database": 0}
    assert RESOURCES.read(Keys({"resources": units}), "resources", {}) == units


def test_a_request_claims_some_of_them() -> None:
    assert CLAIMS.read(Keys({"claims": {"licence:matlab": 2}}), "claims", {}) == {"licence:matlab": 2}


@pytest.mark.parametrize(
    ("key", "wrong", "field"),
    [
        (RESOURCES, {"resources": {"cpus": 4}}, "resources.cpus"),
        (RESOURCES, {"resources": {"matlab": 4}}, "resources.matlab"),
        (RESOURCES, {"resources": {"licence:matlab": -1}}, "resources.licence:matlab"),
        (CLAIMS, {"claims": {"memory_mib": 4}}, "claims.memory_mib"),
        (CLAIMS, {"claims": {"licence:matlab": 0}}, "claims.licence:matlab"),
    ],
)
def test_units_of_something_else_are_refused(key: Key, wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        key.read(Keys(wrong), next(iter(wrong)), {})
    assert caught.value.field == field
