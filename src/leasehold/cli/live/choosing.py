"""Which leases somebody wants to see."""

from collections.abc import Sequence

from leasehold.cli.live.states import read_states
from leasehold.client import Which


def which_leases(states: Sequence[str], site: str, consumer: str, *, everything: bool) -> Which:
    """Say it as the client wants it: without a wish about states, those that are not over.

    Raises UnknownName for a state that is none.
    """
    which = Which(site=site, consumer=consumer, states=read_states(states))
    if not states and not everything:
        which["open"] = True
    return which
