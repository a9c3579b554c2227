"""Use: what a lease holds of a site's resources, on whose account, and from when until when."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holding:
    """What a lease holds while it holds machines: units of each resource, at a site, on account of a path.

    ``is_local``  the lease of one of the owner's own users, who have no account here
    """

    path: str
    site: str
    amounts: Mapping[str, int]
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A holding from its begin until before its end."""

    holding: Holding
    begin_ms: int
    end_ms: int
