"""Names that the shell completes, as far as a gateway tells them at once."""

from leasehold.model.request import LEASE_TYPES

AT_ONCE_S = 0.5
ASKS = ("none-can", "none-can-now", "never")
ROLES = ("member", "group-manager", "site-operator", "federation-admin", "peer")


def complete_type(incomplete: str) -> list[str]:
    """Complete a lease type."""
    return [name for name in LEASE_TYPES if name.startswith(incomplete)]


def complete_state(incomplete: str) -> list[str]:
    """Complete the state of a lease."""
    from leasehold.model.lease import LeaseState

    return [state for state in LeaseState if state.startswith(incomplete)]


def complete_role(incomplete: str) -> list[str]:
    """Complete the role of a token."""
    return [role for role in ROLES if role.startswith(incomplete)]


def complete_ask(incomplete: str) -> list[str]:
    """Complete when a peer is asked."""
    return [ask for ask in ASKS if ask.startswith(incomplete)]


def complete_peer(incomplete: str) -> list[str]:
    """Complete the name of a peer; none where no gateway answers within a moment."""
    from leasehold.client import Patience
    from leasehold.model.errors import LeaseholdError

    try:
        from leasehold.client import Client

        with Client(patience=Patience(tries=1, knocks=1), timeout_s=AT_ONCE_S) as client:
            return [peer.name for peer in client.peers.list() if peer.name.startswith(incomplete)]
    except LeaseholdError:
        return []


def complete_site(incomplete: str) -> list[str]:
    """Complete the name of a site; none where no gateway answers within a moment."""
    from leasehold.client import Patience
    from leasehold.model.errors import LeaseholdError

    try:
        from leasehold.client import Client

        with Client(patience=Patience(tries=1, knocks=1), timeout_s=AT_ONCE_S) as client:
            return [site.name for site in client.sites.list() if site.name.startswith(incomplete)]
    except LeaseholdError:
        return []
