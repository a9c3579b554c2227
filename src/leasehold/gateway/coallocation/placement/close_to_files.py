"""Close-to-Files."""

from leasehold.gateway.coallocation.placement.policy import PlacementOption


def close_to_files(option: PlacementOption) -> tuple[int, ...]:
    """Where are the files, or where are they soonest?

    Rule: the shortest transfer of its files, none where they are; of equals the site with the most free VMs.
    Source: the placement policy CF of KOALA (Mohamed and Epema 2005).
    """
    return option.transfer_ms, -option.free_vms
