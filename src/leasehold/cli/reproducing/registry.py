"""Which evaluations there are, and which of them a list of names asks for."""

from collections.abc import Sequence

from leasehold.cli.reproducing.beyond import Beyond
from leasehold.cli.reproducing.hybrid import Hybrid
from leasehold.cli.reproducing.options import Evaluation
from leasehold.cli.reproducing.published import Published
from leasehold.cli.reproducing.usage_agreements import UsageAgreements
from leasehold.cli.reproducing.victims import Victims

_ALL: tuple[Evaluation, ...] = (
    Published("000", "Victim policies (Salehi and Buyya 2011, Figures 2 and 3)."),
    Published("001", "Routing, its first evaluation (ICA3PP 2011)."),
    Published("003", "Preemption-aware routing (JPDC 2012, Figures 5 to 8)."),
    Published("acsc2011", "With against without preemption (ACSC 2011, abstract)."),
    UsageAgreements(),
    Hybrid(),
    Victims(),
    Beyond(),
)
EVALUATIONS = {one.name: one for one in _ALL}
EVERYTHING = "all"


def asked_for(names: Sequence[str]) -> dict[str, list[str]]:
    """Say which evaluations are to run, in their own order, and which parts; no part is all of them.

    Raises UnknownName.
    """
    wanted: dict[str, list[str] | None] = {}
    for name in EVALUATIONS if EVERYTHING in names else names:
        evaluation = _evaluation_of(name)
        parts = wanted.setdefault(evaluation, [])
        if name == evaluation:
            wanted[evaluation] = None
        elif parts is not None:
            parts.append(name)
    return {name: wanted[name] or [] for name in EVALUATIONS if name in wanted}


def _evaluation_of(name: str) -> str:
    """Find the evaluation of a name: its own, or that of one of its parts."""
    from leasehold.model.errors import UnknownName

    before = name.partition("-")[0]
    if name in EVALUATIONS:
        return name
    if before in EVALUATIONS and name in EVALUATIONS[before].parts():
        return before
    raise UnknownName("evaluation", name, all_names())


def all_names() -> list[str]:
    """Give every name that can be asked for."""
    parts = [part for one in EVALUATIONS.values() for part in one.parts()]
    return [*EVALUATIONS, EVERYTHING, *parts]


def complete_name(incomplete: str) -> list[str]:
    """Complete the name of an evaluation, or of a part of one."""
    return [name for name in all_names() if name.startswith(incomplete)]


def listed() -> str:
    """List the evaluations for the help."""
    return "\n\n".join(f"{one.name}: {one.does}" for one in EVALUATIONS.values())
