"""Names that the shell completes, as far as a gateway tells them at once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leasehold.model.request import LEASE_TYPES

if TYPE_CHECKING:
    from leasehold.client import Client

AT_ONCE_S = 0.5
ASKS = ("none-can", "none-can-now", "never")
SIDES = ("provider", "consumer")
WINDOWS = ("hour", "day", "month")
ROLES = ("member", "group-manager", "site-operator", "federation-admin", "peer")


def complete_type(incomplete: str) -> list[str]:
    """Complete a lease type."""
    return [name for name in LEASE_TYPES if name.startswith(incomplete)]


def complete_state(incomplete: str) -> list[str]:
    """Complete the state of a lease."""
    from leasehold.model.lease import LeaseState

    return [state for state in LeaseState if state.startswith(incomplete)]


def complete_job_state(incomplete: str) -> list[str]:
    """Complete the state of a job."""
    from leasehold.cli.live.job_states import CODES

    return [state for state in CODES if state.startswith(incomplete)]


def complete_backup(incomplete: str) -> list[str]:
    """Complete what is kept ready against a fault."""
    from leasehold.jobs.job import Backup

    return [kind for kind in Backup if kind.startswith(incomplete)]


def complete_claim(incomplete: str) -> list[str]:
    """Complete how the room of a co-allocation is made sure of."""
    from leasehold.model.coallocation import Claim

    return [claim for claim in Claim if claim.startswith(incomplete)]


def complete_place(incomplete: str) -> list[str]:
    """Complete a placement policy."""
    from leasehold.gateway.coallocation.placement.registry import placement_policy_names

    return [name for name in placement_policy_names() if name.startswith(incomplete)]


def complete_role(incomplete: str) -> list[str]:
    """Complete the role of a token."""
    return [role for role in ROLES if role.startswith(incomplete)]


def complete_ask(incomplete: str) -> list[str]:
    """Complete when a peer is asked."""
    return [ask for ask in ASKS if ask.startswith(incomplete)]


def complete_side(incomplete: str) -> list[str]:
    """Complete for whom an agreement is signed."""
    return [side for side in SIDES if side.startswith(incomplete)]


def complete_by(incomplete: str) -> list[str]:
    """Complete the length of a window."""
    return [window for window in WINDOWS if window.startswith(incomplete)]


def complete_peer(incomplete: str) -> list[str]:
    """Complete the name of a peer; none where no gateway answers within a moment."""
    return _complete(incomplete, lambda client: [peer.name for peer in client.peers.list()])


def complete_site(incomplete: str) -> list[str]:
    """Complete the name of a site; none where no gateway answers within a moment."""
    return _complete(incomplete, lambda client: [site.name for site in client.sites.list()])


def complete_agreement(incomplete: str) -> list[str]:
    """Complete the name of an agreement; none where no gateway answers within a moment."""
    return _complete(incomplete, lambda client: [one.name for one in client.agreements.list()])


def _complete(incomplete: str, names: "Callable[[Client], list[str]]") -> list[str]:
    from leasehold.client import RetryPolicy
    from leasehold.model.errors import LeaseholdError

    try:
        from leasehold.client import Client

        with Client(retry=RetryPolicy(tries=1, connect_tries=1), timeout_s=AT_ONCE_S) as client:
            return [name for name in names(client) if name.startswith(incomplete)]
    except LeaseholdError:
        return []
