"""What the files of scenarios and services have in common: how clusters lend, how guests are routed to them.

Each key is declared once. From the declaration, `declaration.Table` reads, checks, writes and explains it.
`terms` and `tables` have the tables; `toml` reads files and finds lines.

Policies that installed packages offer are found here: the one place where the decision core learns of entry points.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from leasehold.model.policies import INSTALLED, Offered


def offers_of(group: str) -> Mapping[str, Offered]:
    """Give what installed packages offer in a group, by name; each is imported when it is asked for."""
    return {one.name: Offered(one.value, one.load) for one in reversed(tuple(entry_points(group=group)))}


def look_for_installed_policies() -> None:
    """Let policies be found by entry point, as packages are installed now: each group is read from disk once."""
    INSTALLED.look_with(cache(offers_of))


look_for_installed_policies()
