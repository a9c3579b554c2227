"""What a placement policy is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacementOption:
    """A site at which a component could run.

    ``free_vms``     the fewest VMs that are free there while it would; what siblings were given is not
    ``transfer_ms``  how long its files take to get there
    """

    site: str
    free_vms: int
    transfer_ms: int


PlacementPolicy = Callable[[PlacementOption], tuple[int, ...]]
"""Ranks an option: the least comes first, and of equals the site that comes first in the federation."""
