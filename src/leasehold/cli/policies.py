"""The policies of all kinds, described alike."""

from dataclasses import dataclass

from leasehold.cli.screen import wrapped
from leasehold.gateway.coallocation.placement.registry import describe as describe_placement
from leasehold.gateway.coallocation.placement.registry import placement_policy_names
from leasehold.leasing.backfill import DISCIPLINES
from leasehold.leasing.victims.registry import describe as describe_victims
from leasehold.leasing.victims.registry import victim_policy_names
from leasehold.model.errors import UnknownName
from leasehold.model.policies import PolicyDescription
from leasehold.routing.registry import describe as describe_routing
from leasehold.routing.registry import meanings, routing_policy, routing_policy_names, usual_values
from leasehold.sharing.broker_policies.registry import broker_policy_names
from leasehold.sharing.broker_policies.registry import describe as describe_broker

ROUTING = "routing"
VICTIMS = "victims"
BACKFILLING = "backfilling"
BROKER = "broker"
PLACEMENT = "placement"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that is part of a policy's rule."""

    name: str
    usual: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy in words.

    ``information``  what a routing policy uses: told, own history, or live state
    ``parameters``   that can be set, with their usual values and what they are
    """

    name: str
    kind: str
    question: str
    rule: str
    source: str
    information: str = ""
    parameters: tuple[Parameter, ...] = ()

    def text(self) -> str:
        """Write all that is known about it."""
        rest = (("Rule", self.rule), ("Source", self.source), ("Information", self.information))
        lines = [f"{self.name} ({self.kind})", "", wrapped(self.question)]
        parts = ["\n".join(lines), *(wrapped(f"{title}: {text}") for title, text in rest if text)]
        return "\n\n".join(parts + self._parameters())

    def _parameters(self) -> list[str]:
        """List what can be set, and how."""
        if not self.parameters:
            return []
        listed = "\n".join(wrapped(f"{one.name}={one.usual:g}: {one.meaning}", "    ") for one in self.parameters)
        first = self.parameters[0]
        return [f"  Parameters, set as in {self.name}:{first.name}={first.usual:g}:\n{listed}"]


def all_policies() -> list[Policy]:
    """Give all of them: where guests go, who gives way, when there is room, which domain, which site."""
    return [
        *map(_routing, routing_policy_names()),
        *map(_victims, victim_policy_names()),
        *map(_discipline, DISCIPLINES),
        *(_described(BROKER, describe_broker(name)) for name in broker_policy_names()),
        *(_described(PLACEMENT, describe_placement(name)) for name in placement_policy_names()),
    ]


def policy_named(name: str) -> Policy:
    """Find one by its name; raises UnknownName."""
    found = {policy.name: policy for policy in reversed(all_policies())}
    if name not in found:
        raise UnknownName("policy", name, found)
    return found[name]


def _routing(name: str) -> Policy:
    told = describe_routing(name)
    kind = routing_policy(name)
    usual, means = usual_values(kind), meanings(kind)
    parameters = tuple(Parameter(key, usual[key], means[key]) for key in usual)
    return Policy(name, ROUTING, told.question, told.rule, told.source, kind.information.label, parameters)


def _victims(name: str) -> Policy:
    return _described(VICTIMS, describe_victims(name))


def _described(kind: str, told: PolicyDescription) -> Policy:
    return Policy(told.name, kind, told.question, told.rule, told.source)


_DEPTHS = {
    "fcfs": "none of those who wait has a reservation, and nobody overtakes",
    "easy": "the first of those who wait has a reservation, and whoever does not delay it may overtake",
    "hybrid": "the first N of those who wait have reservations (hybrid:N; without N it is 8)",
    "conservative": "everybody who waits has a reservation, and it never moves later of itself",
}


def _discipline(name: str) -> Policy:
    rule = f"{_DEPTHS[name]}. Plans are made with requested times."
    source = "JPDC 2012, section 4.1" if name == "conservative" else ""
    return Policy(name, BACKFILLING, "Who may start when there is room?", rule, source)
