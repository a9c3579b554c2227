"""Which broker policies are there? Those of Leasehold in a literal dict, other people's by entry point."""

from leasehold.model.policies import PolicyFunctions
from leasehold.sharing.broker_policies.at_random import at_random
from leasehold.sharing.broker_policies.cheapest_penalty import cheapest_penalty
from leasehold.sharing.broker_policies.gridbus import gridbus
from leasehold.sharing.broker_policies.gruber import gruber
from leasehold.sharing.broker_policies.least_used import least_used
from leasehold.sharing.broker_policies.most_room import most_room
from leasehold.sharing.broker_policies.sphinx import sphinx
from leasehold.sharing.offers import BrokerPolicy

ENTRY_POINT_GROUP = "leasehold.broker_policies"
"""Where a package offers a function from an `Offer` and a random stream to a whole number."""

BROKER_POLICIES: dict[str, BrokerPolicy] = {
    "most-room": most_room,
    "least-used": least_used,
    "cheapest-penalty": cheapest_penalty,
    "random": at_random,
    "sphinx": sphinx,
    "gridbus": gridbus,
    "gruber": gruber,
}

_ALL = PolicyFunctions("broker policy", ENTRY_POINT_GROUP, BROKER_POLICIES, "a function of an offer and a stream")
broker_policy_names, broker_policy, describe = _ALL.names, _ALL.find, _ALL.describe
