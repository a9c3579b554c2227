"""Which placement policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

from leasehold.gateway.coallocation.placement.close_to_files import close_to_files
from leasehold.gateway.coallocation.placement.policy import PlacementPolicy
from leasehold.gateway.coallocation.placement.worst_fit import worst_fit
from leasehold.model.policies import PolicyFunctions

ENTRY_POINT_GROUP = "leasehold.placement_policies"
"""Where a package offers a function that ranks an `PlacementOption`."""

PLACEMENT_POLICIES: dict[str, PlacementPolicy] = {
    "worst-fit": worst_fit,
    "close-to-files": close_to_files,
}

_ALL = PolicyFunctions("placement policy", ENTRY_POINT_GROUP, PLACEMENT_POLICIES, "a function of an option")
placement_policy_names, placement_policy, describe = _ALL.names, _ALL.find, _ALL.describe
