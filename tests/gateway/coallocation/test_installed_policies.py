"""Placement policies of installed packages are loaded when a gateway is made, and no decision looks for them."""

from collections.abc import Iterator

import pytest

from leasehold.configuration import look_for_installed_policies
from leasehold.gateway.coallocation.placement import registry
from leasehold.gateway.coallocation.placement.worst_fit import worst_fit
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.policies import INSTALLED, Offered


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The groups that were looked for: a package offers a policy, and something that is none."""
    groups: list[str] = []

    def offers(group: str) -> dict[str, Offered]:
        groups.append(group)
        return {"mine": Offered("mine:worst", lambda: worst_fit), "broken": Offered("mine:three", lambda: 3)}

    monkeypatch.setattr(registry, "_RESOLVED", dict(registry.PLACEMENT_POLICIES))
    INSTALLED.look_with(offers)
    yield groups
    look_for_installed_policies()


def test_a_policy_of_a_package_is_there_once_a_gateway_is_made(looks: list[str]) -> None:
    with pytest.raises(UnknownName):
        registry.placement_policy("mine")
    registry.resolve_placement_policies()
    looks.clear()
    assert registry.placement_policy("mine") is worst_fit
    with pytest.raises(InvalidField, match="function"):
        registry.placement_policy("broken")
    with pytest.raises(UnknownName):
        registry.placement_policy("worst")
    assert looks == [], "a decision reads no disk"
