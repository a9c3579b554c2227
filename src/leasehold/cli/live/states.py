"""The states of leases in two letters, with Slurm's where Slurm has one that means the same."""

from collections.abc import Iterable
from itertools import chain

from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState

CODES: dict[LeaseState, str] = {
    LeaseState.SUBMITTED: "SB",
    LeaseState.HELD: "HD",
    LeaseState.WAITING: "PD",
    LeaseState.STARTING: "CF",
    LeaseState.RUNNING: "R",
    LeaseState.SUSPENDING: "SG",
    LeaseState.SUSPENDED: "S",
    LeaseState.RESUMING: "RG",
    LeaseState.MIGRATING: "MG",
    LeaseState.COMPLETED: "CD",
    LeaseState.KILLED: "TO",
    LeaseState.TERMINATED: "PR",
    LeaseState.FAILED: "F",
    LeaseState.REFUSED: "RF",
    LeaseState.CANCELLED: "CA",
}

MEANINGS: dict[LeaseState, str] = {
    LeaseState.SUBMITTED: "just taken in",
    LeaseState.HELD: "waits at the gateway, for a site",
    LeaseState.WAITING: "pending: waits at a site, for room",
    LeaseState.STARTING: "configuring: its machines were told to start, and were not seen yet",
    LeaseState.RUNNING: "has its machines",
    LeaseState.SUSPENDING: "its memory is being saved",
    LeaseState.SUSPENDED: "its memory is saved, and it waits to go on",
    LeaseState.RESUMING: "is coming back from saved memory",
    LeaseState.MIGRATING: "is moving to another site",
    LeaseState.COMPLETED: "ran to its end",
    LeaseState.KILLED: "timed out: was ended at its requested time",
    LeaseState.TERMINATED: "preempted: was ended to make room",
    LeaseState.FAILED: "lost its machines, or its deadline, or its machines never started",
    LeaseState.REFUSED: "was never taken on",
    LeaseState.CANCELLED: "was taken back",
}

_NAMES = {str(state): state for state in LeaseState}
_BY_CODE = {code: state for state, code in CODES.items()}


def legend() -> str:
    """Explain all codes in one paragraph."""
    return "; ".join(f"{CODES[state]} {state} ({MEANINGS[state]})" for state in LeaseState)


def read_states(texts: Iterable[str]) -> list[LeaseState]:
    """Read states by name or code, also several with commas between; raises UnknownName."""
    words = [word.strip() for word in chain.from_iterable(text.split(",") for text in texts)]
    return [_state(word) for word in words if word]


def _state(word: str) -> LeaseState:
    found = _NAMES.get(word.lower()) or _BY_CODE.get(word.upper())
    if found is None:
        raise UnknownName("--state", word, [*_NAMES, *_BY_CODE])
    return found
