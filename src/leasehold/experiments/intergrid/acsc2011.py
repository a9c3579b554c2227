"""What the abstract of ACSC 2011 says: more local requests served, no more external ones rejected."""

from collections.abc import Iterator, Mapping

from leasehold.experiments.intergrid.claims import LAST, Claim, Figure, difference

PREEMPTING, NEVER = POLICIES = ("preempting", "never")
MORE, NO_MORE = 1.72, 1.05


def _figures() -> Iterator[Figure]:
    for letter in "cd":
        beside = ("local_rejection_pct", "vms_preempted")
        yield Figure(f"1{letter}", letter, "local_served_pct", "Local requests served (%)", beside)
    for letter in "cd":
        beside = ("np_rejection_pct", "guest_work_vm_h")
        yield Figure(f"2{letter}", letter, "guest_rejection_pct", "External requests rejected (%)", beside)


FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _figures()}


def claims() -> list[Claim]:
    """List what is claimed, along both sweeps."""
    return [claim for letter in "cd" for claim in (_served(letter), _rejected(letter))]


def _served(letter: str) -> Claim:
    text = "up to 72 % more local requests served, at the last point"
    strong, weak = (difference(PREEMPTING, NEVER, LAST, times) for times in (1 / MORE, 1.0))
    return Claim(f"1{letter}", text, (strong,), "preemption", weaker=(weak,))


def _rejected(letter: str) -> Claim:
    text = "external requests are not rejected more often (5 % more at most)"
    return Claim(f"2{letter}", text, (difference(NEVER, PREEMPTING, times=NO_MORE),), "rejection")
