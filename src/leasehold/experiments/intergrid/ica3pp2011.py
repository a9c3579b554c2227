"""What the slides of ICA3PP 2011 say of their figures: one sentence, about the first of them."""

from collections.abc import Iterator, Mapping

from leasehold.experiments.intergrid.claims import LAST, Claim, Figure, is_least, less_by

RRP, LRP, PAP = POLICIES = ("rr", "lrf-rnd", "pap-rnd")


def _figures() -> Iterator[Figure]:
    for letter in "abc":
        beside = ("leases_preempted",)
        yield Figure(f"1{letter}", letter, "vms_preempted", "VMs preempted", beside)
    for letter in "abc":
        yield Figure(f"2{letter}", letter, "utilisation_pct", "Utilisation (%)", ("occupancy_pct",))
    for letter in "abc":
        yield Figure(f"3{letter}", letter, "response_s", "Average response time (s)", ("awrt_s",))


FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _figures()}


def claims() -> list[Claim]:
    """List what is claimed: fewest VMs preempted, up to 22.5 % fewer."""
    return [claim for letter in "abc" for claim in _of(f"1{letter}")]


def _of(figure: str) -> Iterator[Claim]:
    yield is_least(figure, PAP, POLICIES, "allocation")
    yield less_by(figure, 0.225, "PAP-RND 22.5 % below the others at the last point", (PAP, (RRP, LRP)), LAST)
