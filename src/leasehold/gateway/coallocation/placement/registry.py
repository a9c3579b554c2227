"""Which placement policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

from leasehold.gateway.coallocation.placement.close_to_files import close_to_files
from leasehold.gateway.coallocation.placement.policy import PlacementPolicy
from leasehold.gateway.coallocation.placement.worst_fit import worst_fit
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.policies import PolicyFunctions

ENTRY_POINT_GROUP = "leasehold.placement_policies"
"""Where a package offers a function that ranks an `PlacementOption`."""

PLACEMENT_POLICIES: dict[str, PlacementPolicy] = {
    "worst-fit": worst_fit,
    "close-to-files": close_to_files,
}

_ALL = PolicyFunctions("placement policy", ENTRY_POINT_GROUP, PLACEMENT_POLICIES, "a function of an option")
placement_policy_names, describe = _ALL.names, _ALL.describe

_RESOLVED: dict[str, PlacementPolicy | InvalidField] = {**PLACEMENT_POLICIES}
"""What a name stands for in a decision: a policy, or why what a package offers is none."""


def resolve_placement_policies() -> None:
    """Load what installed packages offer, so that no decision reads the disk: for the makers of gateways."""
    for name in placement_policy_names():
        if name not in _RESOLVED:
            try:
                _RESOLVED[name] = _ALL.find(name)
            except InvalidField as error:
                _RESOLVED[name] = error


def placement_policy(name: str) -> PlacementPolicy:
    """Give a policy that is loaded; raises UnknownName, and InvalidField for what is no policy."""
    found = _RESOLVED.get(name)
    if found is None:
        raise UnknownName("placement policy", name, _RESOLVED)
    if isinstance(found, InvalidField):
        raise found
    return found
