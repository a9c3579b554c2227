"""The states of jobs in two letters, with Slurm's where Slurm has one that means the same."""

from collections.abc import Iterable
from itertools import chain

from leasehold.model.errors import UnknownName

CODES = {
    "waiting": "PD",
    "building": "BD",
    "starting": "CF",
    "running": "R",
    "suspended": "S",
    "completed": "CD",
    "failed": "F",
    "refused": "RF",
    "cancelled": "CA",
}
MEANINGS = {
    "waiting": "pending: waits for nodes, for its next try, or in the queue of its site",
    "building": "an image with its software is being built",
    "starting": "configuring: machines were given to it, and its command does not run yet",
    "running": "its command runs",
    "suspended": "its command ran, and gave its machines up for a while",
    "completed": "ran to its end",
    "failed": "ended with an error, or met too many faults",
    "refused": "can run nowhere, or not in time",
    "cancelled": "was taken back",
}
_NAMES = {code: state for state, code in CODES.items()}


def legend() -> str:
    """Explain all codes in one paragraph."""
    return "; ".join(f"{code} {state} ({MEANINGS[state]})" for state, code in CODES.items())


def read_states(texts: Iterable[str]) -> list[str]:
    """Read states by name or code, also several with commas between; raises UnknownName."""
    words = [word.strip() for word in chain.from_iterable(text.split(",") for text in texts)]
    return [_state(word) for word in words if word]


def _state(word: str) -> str:
    if word.lower() in CODES:
        return word.lower()
    if word.upper() not in _NAMES:
        raise UnknownName("--state", word, [*CODES, *_NAMES])
    return _NAMES[word.upper()]
