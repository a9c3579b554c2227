"""Which placement policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

import inspect
from importlib.metadata import entry_points
from typing import cast

from leasehold.gateway.coallocation.placement.close_to_files import close_to_files
from leasehold.gateway.coallocation.placement.policy import PlacementPolicy
from leasehold.gateway.coallocation.placement.worst_fit import worst_fit
from leasehold.model.description import PolicyDescription, described
from leasehold.model.errors import InvalidField, UnknownName

ENTRY_POINT_GROUP = "leasehold.placement_policies"
"""Where a package offers a function that ranks an `Option`."""

PLACEMENT_POLICIES: dict[str, PlacementPolicy] = {
    "worst-fit": worst_fit,
    "close-to-files": close_to_files,
}


def placement_policy_names() -> list[str]:
    """List the names of all policies, Leasehold's own first."""
    others = sorted(entry_points(group=ENTRY_POINT_GROUP).names - PLACEMENT_POLICIES.keys())
    return [*PLACEMENT_POLICIES, *others]


def placement_policy(name: str) -> PlacementPolicy:
    """Find a policy by its name; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that is no function.
    """
    if name in PLACEMENT_POLICIES:
        return PLACEMENT_POLICIES[name]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        found = entry_point.load()
        if callable(found) and not isinstance(found, type):
            return cast("PlacementPolicy", found)
        raise InvalidField(f"entry point {name}", entry_point.value, "a function of an option")
    raise UnknownName("placement policy", name, placement_policy_names())


def describe(name: str) -> PolicyDescription:
    """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
    return described(name, inspect.getdoc(placement_policy(name)))
