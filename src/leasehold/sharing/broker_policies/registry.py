"""Which broker policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

import inspect
from importlib.metadata import entry_points
from typing import cast

from leasehold.model.description import PolicyDescription, described
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.sharing.broker_policies.at_random import at_random
from leasehold.sharing.broker_policies.cheapest_penalty import cheapest_penalty
from leasehold.sharing.broker_policies.least_used import least_used
from leasehold.sharing.broker_policies.most_room import most_room
from leasehold.sharing.broker_policies.policy import BrokerPolicy

ENTRY_POINT_GROUP = "leasehold.broker_policies"
"""Where a package offers a function from an `Offer` and a random stream to a whole number."""

BROKER_POLICIES: dict[str, BrokerPolicy] = {
    "most-room": most_room,
    "least-used": least_used,
    "cheapest-penalty": cheapest_penalty,
    "random": at_random,
}


def broker_policy_names() -> list[str]:
    """List the names of all policies, Leasehold's own first."""
    others = sorted(entry_points(group=ENTRY_POINT_GROUP).names - BROKER_POLICIES.keys())
    return [*BROKER_POLICIES, *others]


def broker_policy(name: str) -> BrokerPolicy:
    """Find a policy by its name; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that is no function.
    """
    if name in BROKER_POLICIES:
        return BROKER_POLICIES[name]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        found = entry_point.load()
        if callable(found) and not isinstance(found, type):
            return cast("BrokerPolicy", found)
        raise InvalidField(f"entry point {name}", entry_point.value, "a function of an offer and a stream")
    raise UnknownName("broker policy", name, broker_policy_names())


def describe(name: str) -> PolicyDescription:
    """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
    return described(name, inspect.getdoc(broker_policy(name)))
