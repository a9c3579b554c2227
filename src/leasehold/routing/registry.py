"""Which routing policies are there? Those of Leasehold in a literal dict, other people's by entry point.

A policy may have parameters in its name: ``selective:refused_above=0.22,price=0.005``. Such a policy names their
dataclass, and takes one as the second argument of its constructor.
"""

from collections.abc import Callable
from dataclasses import fields
from random import Random
from typing import Any

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import ABOVE_0, number_above_0
from leasehold.model.policies import INSTALLED, PolicyDescription, described, described_fields
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

PolicyMaker = Callable[[Random], RoutingPolicy]
"""Makes a routing policy that draws from these random numbers."""


def parted(name: str) -> tuple[str, str]:
    """Split a name from its parameters, "" if it has none."""
    bare, colon, last = name.rpartition(":")
    return (bare, last) if colon and "=" in last else (name, "")


def policy_maker(kind: type[RoutingPolicy], written: str = "") -> PolicyMaker:
    """Give what makes policies of this kind; ``written`` as in ``price=0.005,wait=0.8``.

    Raises UnknownName or InvalidField for an unknown parameter, or a value that is not above 0.
    """
    if not written:
        return kind
    if kind.parameters is None:
        raise InvalidField(f"parameters of {kind.name}", written, f"none: {kind.name} has no parameters")
    make: Callable[..., RoutingPolicy] = kind
    values = kind.parameters(**_read(kind, written))
    return lambda random: make(random, values)


def _read(kind: type[RoutingPolicy], written: str) -> dict[str, float]:
    """Read ``KEY=NUMBER,KEY=NUMBER``."""
    known, found = usual_values(kind), dict[str, float]()
    for part in written.split(","):
        key, _, text = part.partition("=")
        if key not in known:
            raise UnknownName(f"parameter of {kind.name}", key, known)
        if key in found:
            raise InvalidField(f"parameters of {kind.name}", written, f"{key} once")
        found[key] = _number(key, text)
    return found


def _number(key: str, text: str) -> float:
    value = number_above_0(text)
    if value is None:
        raise InvalidField(key, f"{key}={text}", f"{key}=NUMBER, {ABOVE_0}")
    return value


def usual_values(kind: type[RoutingPolicy]) -> dict[str, Any]:
    """Give the parameters of a policy with their usual values."""
    return {} if kind.parameters is None else {each.name: each.default for each in fields(kind.parameters)}


def meanings(kind: type[RoutingPolicy]) -> dict[str, str]:
    """Say what each parameter is, as the docstring of the dataclass, or of one that it extends, says it."""
    described: dict[str, str] = {}
    for each in () if kind.parameters is None else kind.parameters.__mro__:
        described = described_fields(each.__doc__) | described
    return {key: described.get(key, "") for key in usual_values(kind)}


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
    return INSTALLED.names(ENTRY_POINT_GROUP, ROUTING_POLICIES)


def routing_policy(name: str) -> type[RoutingPolicy]:
    """Find a policy by its name; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that is not a routing policy.
    """
    if name in ROUTING_POLICIES:
        return ROUTING_POLICIES[name]
    offered = INSTALLED.find(ENTRY_POINT_GROUP, name)
    if offered is None:
        raise UnknownName("routing policy", name, routing_policy_names())
    found = offered.load()
    if isinstance(found, type) and issubclass(found, RoutingPolicy):
        return found
    raise InvalidField(f"entry point {name}", offered.value, "a subclass of RoutingPolicy")


def describe(name: str) -> PolicyDescription:
    """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
    return described(name, routing_policy(name).__doc__)
