"""Worst-Fit."""

from leasehold.gateway.coallocation.placement.policy import PlacementOption


def worst_fit(option: PlacementOption) -> tuple[int, ...]:
    """Where is the most room?

    Rule: the most free VMs, so that what is left stays balanced over the sites.
    Source: the placement policy WF of KOALA (Mohamed and Epema 2005).
    """
    return (-option.free_vms,)
