"""Which victim policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

import inspect

from leasehold.leasing.victims.exact_cover import ExactCover
from leasehold.leasing.victims.from_function import from_function
from leasehold.leasing.victims.guard import by_value
from leasehold.leasing.victims.least_lost import LeastLost
from leasehold.leasing.victims.mlip import Mlip
from leasehold.leasing.victims.moml import Moml
from leasehold.leasing.victims.mov import Mov
from leasehold.leasing.victims.pareto import PARETO, pareto
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.youngest_first import YOUNGEST_FIRST
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.policies import INSTALLED, Offered, PolicyDescription, described

ENTRY_POINT_GROUP = "leasehold.victim_policies"
"""Where a package offers a VictimPolicy, a class of it, or a function for `from_function`."""

VICTIM_POLICIES: dict[str, VictimPolicy] = {
    "mov": Mov(),
    "mlip": Mlip(),
    "moml": Moml(),
    "exact-cover": ExactCover(),
    PARETO: pareto(),
    "least-lost": LeastLost(),
    "youngest-first": YOUNGEST_FIRST,
}

BY_VALUE = "by-value:"
"""Before a name: the order of the lease types comes first."""


def victim_policy_names() -> list[str]:
    """List the names of all policies, Leasehold's own first; each may have ``by-value:`` before it."""
    return INSTALLED.names(ENTRY_POINT_GROUP, VICTIM_POLICIES)


def victim_policy(name: str) -> VictimPolicy:
    """Find a policy by its name, as in ``moml`` or ``by-value:moml``.

    ``pareto:`` may have weights or an order of objectives behind it. Leasehold's own names cannot be taken
    by others. Raises UnknownName with the nearest name, InvalidField for an entry point that offers no policy
    and for weights that are none.
    """
    if name.startswith(BY_VALUE):
        return by_value(victim_policy(name.removeprefix(BY_VALUE)))
    if name.startswith(f"{PARETO}:"):
        return pareto(name.removeprefix(f"{PARETO}:"))
    if name in VICTIM_POLICIES:
        return VICTIM_POLICIES[name]
    offered = INSTALLED.find(ENTRY_POINT_GROUP, name)
    if offered is None:
        raise UnknownName("victim policy", name, victim_policy_names())
    return _made_of(name, offered)


def describe(name: str) -> PolicyDescription:
    """Describe a policy: its question, rule and source. Raises UnknownName or InvalidField."""
    return described(name, inspect.getdoc(victim_policy(name)))


def _made_of(name: str, offered: Offered) -> VictimPolicy:
    """Make a policy of what a package offers under an entry point."""
    field = f"entry point {name}"
    try:
        offer = offered.load()
    except (ImportError, AttributeError) as error:
        raise InvalidField(field, offered.value, f"something to import ({error})") from error
    if isinstance(offer, VictimPolicy):
        return offer
    if isinstance(offer, type) and issubclass(offer, VictimPolicy):
        return offer()
    if callable(offer) and not isinstance(offer, type):
        return from_function(offer, name)
    raise InvalidField(field, offered.value, "a VictimPolicy or a function")
