"""An independent check of a run: it reads the run folder and knows nothing of the scheduler.

Each rule is stated once (`RULES`), finds its offenders by one pass over the tables, and says them as
a `Violation`. What is written by other programs to the same schema can be checked just so.
"""

from dataclasses import dataclass
from typing import Any

from leasehold.analysis.run import Run
from leasehold.analysis.validation.accounting import ACCOUNTING, LIFE, TYPES
from leasehold.analysis.validation.coallocations import COALLOCATIONS
from leasehold.analysis.validation.evidence import Evidence, ValidationRule, parts_of
from leasehold.analysis.validation.placements import PLACEMENTS
from leasehold.analysis.validation.preemption import CAPACITY, PREEMPTION, PROMISES

RULES: tuple[ValidationRule, ...] = (
    *ACCOUNTING,
    *CAPACITY,
    *LIFE,
    *TYPES,
    *PREEMPTION,
    *PROMISES,
    *COALLOCATIONS,
    *PLACEMENTS,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a run contradicts a rule; ``sentence`` says how."""

    rule: str
    lease_id: int | None
    site: str | None
    time_ms: int | None
    sentence: str


def validate(run: Run) -> list[Violation]:
    """Check a run against every rule and return what contradicts one, in the order of the rules.

    An interrupted run is held to the same rules: its leases are open, and none is lost.
    """
    whole, found = Evidence(run), {rule.name: list[tuple[Any, ...]]() for rule in RULES}
    for needs in dict.fromkeys(rule.needs for rule in RULES):
        for part in parts_of(whole, needs):
            for rule in RULES:
                if rule.needs == needs:
                    found[rule.name] += rule.check(part).rows()
    return [Violation(name, *row) for name, rows in found.items() for row in rows]


__all__ = ["RULES", "ValidationRule", "Violation", "validate"]
