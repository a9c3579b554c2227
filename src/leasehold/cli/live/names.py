"""Names that users type: the states of leases and jobs, and what the shell completes.

States have two letters, Slurm's where Slurm has one that means the same. What only a gateway knows is completed where
one answers at once. All commands import this, so that what takes long is imported where it is needed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from leasehold.model.errors import UnknownName
from leasehold.model.request import LEASE_TYPES

if TYPE_CHECKING:
    from leasehold.client import Client

AT_ONCE_S = 0.5
ASKS = ("none-can", "none-can-now", "never")
SIDES = ("provider", "consumer")
WINDOWS = ("hour", "day", "month")
ROLES = ("member", "group-manager", "site-operator", "federation-admin", "peer")


@dataclass(frozen=True, slots=True)
class States:
    """The states of one noun, each with its code and its meaning."""

    known: Mapping[str, tuple[str, str]]

    def code(self, state: str) -> str:
        """Give the two letters of a state; of one that a later gateway has, its name."""
        return self.known[state][0] if state in self.known else state

    def legend(self) -> str:
        """Explain all codes in one paragraph."""
        return "; ".join(f"{code} {state} ({meaning})" for state, (code, meaning) in self.known.items())

    def read(self, texts: Iterable[str]) -> list[str]:
        """Read states by name or code, also several with commas between; raises UnknownName."""
        words = [word.strip() for word in chain.from_iterable(text.split(",") for text in texts)]
        return [self._state(word) for word in words if word]

    def _state(self, word: str) -> str:
        by_code = {code: state for state, (code, _) in self.known.items()}
        found = word.lower() if word.lower() in self.known else by_code.get(word.upper())
        if found is None:
            raise UnknownName("--state", word, [*self.known, *by_code])
        return found


LEASE_STATES = States(
    {
        "submitted": ("SB", "accepted, not yet routed"),
        "held": ("HD", "waits at the gateway for a site"),
        "waiting": ("PD", "pending: waits at a site for free VMs"),
        "starting": ("CF", "configuring: its machines are starting"),
        "running": ("R", "has its machines"),
        "suspending": ("SG", "its memory is being saved"),
        "suspended": ("S", "its memory is saved, and it waits to go on"),
        "resuming": ("RG", "is coming back from saved memory"),
        "migrating": ("MG", "is moving to another site"),
        "completed": ("CD", "ran to its end"),
        "killed": ("TO", "timed out: was ended at its requested time"),
        "terminated": ("PR", "preempted: was ended for another request"),
        "failed": ("F", "lost its machines, or its deadline, or its machines never started"),
        "refused": ("RF", "was not accepted"),
        "cancelled": ("CA", "was cancelled by its user"),
    }
)
JOB_STATES = States(
    {
        "waiting": ("PD", "pending: waits for nodes, for its next try, or in the queue of its site"),
        "building": ("BD", "an image with its software is being built"),
        "starting": ("CF", "configuring: it has machines, and its command does not run yet"),
        "running": ("R", "its command runs"),
        "suspended": ("S", "its command is suspended"),
        "completed": ("CD", "ran to its end"),
        "failed": ("F", "ended with an error, or after too many faults"),
        "refused": ("RF", "can run nowhere, or not in time"),
        "cancelled": ("CA", "was cancelled by its user"),
    }
)


def complete_type(incomplete: str) -> list[str]:
    """Complete a lease type."""
    return [name for name in LEASE_TYPES if name.startswith(incomplete)]


def complete_state(incomplete: str) -> list[str]:
    """Complete the state of a lease."""
    return [state for state in LEASE_STATES.known if state.startswith(incomplete)]


def complete_job_state(incomplete: str) -> list[str]:
    """Complete the state of a job."""
    return [state for state in JOB_STATES.known if state.startswith(incomplete)]


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


def complete_image(incomplete: str) -> list[str]:
    """Complete the name of an image that a lease may name; none where no gateway answers within a moment."""
    return _complete(incomplete, lambda client: sorted({name for site in client.sites.list() for name in site.images}))


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
