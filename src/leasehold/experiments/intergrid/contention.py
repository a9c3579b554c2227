"""What section III of Salehi and Buyya (2011) says of Figures 2 and 3: MOV, MLIP and MOML compared.

Figures 4 and 5 of it are those of JPDC 2012, 5(b-d) and 8(c-h).
"""

from collections.abc import Iterator, Mapping

from leasehold.experiments.intergrid.claims import (
    Claim,
    Expects,
    Figure,
    Term,
    Where,
    difference,
    falls,
    is_least,
    rises,
)

MOV, MLIP, MOML = POLICIES = ("mov", "mlip", "moml")
FEW_BEST_EFFORT_PCT = 30


def _figures() -> Iterator[Figure]:
    for letter in "abc":
        yield Figure(f"2{letter}", letter, "utilisation_pct", "Utilisation (%)", ("occupancy_pct",))
    for letter in "abc":
        beside = ("leases_preempted", "vms_preempted")
        yield Figure(f"3{letter}", letter, "preemptions", "Lease preemptions", beside)


FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _figures()}


def claims() -> list[Claim]:
    """List what is claimed, figure by figure."""
    return [*_utilisation(), *_preemptions()]


def _utilisation() -> Iterator[Claim]:
    yield rises("2a", POLICIES)
    yield rises("2b", POLICIES)
    yield falls("2c", POLICIES)


def _preemptions() -> Iterator[Claim]:
    yield falls("3a", POLICIES)
    yield rises("3b", POLICIES)
    yield rises("3c", POLICIES)
    for figure in ("3a", "3b", "3c"):
        yield is_least(figure, MLIP, POLICIES, "victims")
        between = (difference(MOV, MOML), difference(MOML, MLIP))
        yield Claim(figure, "MOML lies between MLIP and MOV", between, "victims")
    yield _as_mov_where_few_are_best_effort()
    yield _nearer_to_mlip_elsewhere()


def _as_mov_where_few_are_best_effort() -> Claim:
    few = (difference(MOV, MOML, Where(below=FEW_BEST_EFFORT_PCT)),)
    return Claim("3b", "MOML and MOV do not differ up to 30 %", few, "victims", Expects.NO_DIFFERENCE)


def _nearer_to_mlip_elsewhere() -> Claim:
    """Claim that MOV is farther from MOML than MOML is from MLIP."""
    many = Where(above=FEW_BEST_EFFORT_PCT)
    nearer = ((Term(1, MOV, many), Term(1, MLIP, many), Term(-2, MOML, many)),)
    return Claim("3b", "MOML is nearer to MLIP than to MOV above 30 %", nearer, "victims")
