"""Which routing policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

from importlib.metadata import entry_points

from leasehold.model.description import PolicyDescription, described
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.routing.policies.back_off import BackOff
from leasehold.routing.policies.bcf_rnd import BiggestClusterFirst
from leasehold.routing.policies.late_binding import LateBinding
from leasehold.routing.policies.least_in_flight import LeastInFlight
from leasehold.routing.policies.lrf_rnd import LeastRateFirst
from leasehold.routing.policies.most_free import MostFree
from leasehold.routing.policies.pap_rnd import PapRandom
from leasehold.routing.policies.pap_rtdp import PapRtdp
from leasehold.routing.policies.price import Price
from leasehold.routing.policies.price_and_park import PriceAndPark
from leasehold.routing.policies.rr import RoundRobin
from leasehold.routing.policies.selective import Selective
from leasehold.routing.policies.wait_for_idle import WaitForIdle
from leasehold.routing.policy import RoutingPolicy

ENTRY_POINT_GROUP = "leasehold.routing_policies"

ROUTING_POLICIES: dict[str, type[RoutingPolicy]] = {
    "rr": RoundRobin,
    "lrf-rnd": LeastRateFirst,
    "bcf-rnd": BiggestClusterFirst,
    "pap-rnd": PapRandom,
    "pap-rtdp": PapRtdp,
    "least-in-flight": LeastInFlight,
    "back-off": BackOff,
    "most-free": MostFree,
    "late-binding": LateBinding,
    "price": Price,
    "wait-for-idle": WaitForIdle,
    "price-and-park": PriceAndPark,
    "selective": Selective,
}


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
    """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
    return described(name, routing_policy(name).__doc__)
