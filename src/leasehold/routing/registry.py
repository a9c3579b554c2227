"""Which routing policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from inspect import cleandoc

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.routing.policies.bcf_rnd import BiggestClusterFirst
from leasehold.routing.policies.least_in_flight import LeastInFlight
from leasehold.routing.policies.lrf_rnd import LeastRateFirst
from leasehold.routing.policies.most_free import MostFree
from leasehold.routing.policies.pap_rnd import PapRandom
from leasehold.routing.policies.pap_rtdp import PapRtdp
from leasehold.routing.policies.rr import RoundRobin
from leasehold.routing.policy import RoutingPolicy

ENTRY_POINT_GROUP = "leasehold.routing_policies"

ROUTING_POLICIES: dict[str, type[RoutingPolicy]] = {
    "rr": RoundRobin,
    "lrf-rnd": LeastRateFirst,
    "bcf-rnd": BiggestClusterFirst,
    "pap-rnd": PapRandom,
    "pap-rtdp": PapRtdp,
    "least-in-flight": LeastInFlight,
    "most-free": MostFree,
}


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """A policy in words, from its docstring; what the docstring does not say is empty."""

    name: str
    question: str
    rule: str
    source: str
    information: str


def routing_policy_names() -> list[str]:
    """List the names of all policies, Leasehold's own first."""
    others = sorted(entry_points(group=ENTRY_POINT_GROUP).names - ROUTING_POLICIES.keys())
    return [*ROUTING_POLICIES, *others]


def routing_policy(name: str) -> type[RoutingPolicy]:
    """Find a policy by its name; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that is no routing policy.
    """
    if name in ROUTING_POLICIES:
        return ROUTING_POLICIES[name]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        found = entry_point.load()
        if isinstance(found, type) and issubclass(found, RoutingPolicy):
            return found
        raise InvalidField(f"entry point {name}", entry_point.value, "a subclass of RoutingPolicy")
    raise UnknownName("routing policy", name, routing_policy_names())


def describe(name: str) -> PolicyDescription:
    """Describe a policy: its question, rule, source and the information that it uses. Raises UnknownName."""
    policy = routing_policy(name)
    text = cleandoc(policy.__doc__ or "")
    return PolicyDescription(
        name=name,
        question=text.partition("\n")[0],
        rule=_part(text, "Rule"),
        source=_part(text, "Source"),
        information=policy.information.label,
    )


def _part(text: str, title: str) -> str:
    """Give the sentence after ``Title:``, with its indented continuation, as one line."""
    found = re.search(rf"^{title}:((?:.*)(?:\n[ \t]+.*)*)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
