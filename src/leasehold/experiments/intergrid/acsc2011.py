"""What the abstract of ACSC 2011 says: more local requests served, no more external ones rejected."""

from collections.abc import Iterator, Mapping

from leasehold.experiments.intergrid.claims import LAST, Claim, Figure, difference

CLAIMED = "cd"
"""The sweeps about which something is claimed; ``e`` is ours."""
SWEEPS = "cde"

PREEMPTING, NEVER = POLICIES = ("preempting", "never")
MORE, NO_MORE = 1.72, 1.05


def _figures() -> Iterator[Figure]:
    served, rejected = "Local requests served (%)", "External requests rejected (%)"
    beside_served = ("local_rejection_pct", "vms_preempted", "occupancy_pct")
    beside_rejected = ("np_rejection_pct", "guest_work_vm_h")
    for letter in SWEEPS:
        yield Figure(f"1{letter}", letter, "local_served_pct", served, beside_served)
    for letter in SWEEPS:
        yield Figure(f"2{letter}", letter, "guest_rejection_pct", rejected, beside_rejected)


FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _figures()}


def claims() -> list[Claim]:
    """List what is claimed, along both of its sweeps."""
    return [claim for letter in CLAIMED for claim in (_served(letter), _rejected(letter))]


def _served(letter: str) -> Claim:
    text = "up to 72 % more local requests served, at the last point"
    strong, weak = (difference(PREEMPTING, NEVER, LAST, times) for times in (1 / MORE, 1.0))
    return Claim(f"1{letter}", text, (strong,), "preemption", weaker=(weak,))


def _rejected(letter: str) -> Claim:
    text = "external requests are not rejected more often (5 % more at most)"
    return Claim(f"2{letter}", text, (difference(NEVER, PREEMPTING, times=NO_MORE),), "rejection")
