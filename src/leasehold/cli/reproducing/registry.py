"""Which evaluations there are, and which of them a list of names asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from leasehold.cli.reproducing.options import Answer, Manner

if TYPE_CHECKING:
    from leasehold.experiments.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Packaged:
    """An evaluation in a package of `leasehold.experiments`; ``does`` is its line in the help."""

    name: str
    package: str
    does: str

    def parts(self) -> Sequence[str]:
        """Name what can be run of it alone, such as ``003-fig5a``; not its own name."""
        return self._evaluation().parts()

    def run(self, parts: Sequence[str], manner: Manner) -> Answer:
        """Run all of it, or these parts."""
        from leasehold.cli.reproducing.running import run

        return run(self.name, self._evaluation(), parts, manner)

    def _evaluation(self) -> "Evaluation":
        found: Evaluation = import_module(f"leasehold.experiments.{self.package}.evaluation").EVALUATIONS[self.name]
        return found


_ALL = (
    Packaged("000", "intergrid", "Victim policies (Salehi and Buyya 2011, Figures 2 and 3)."),
    Packaged("001", "intergrid", "Routing, its first evaluation (ICA3PP 2011)."),
    Packaged("003", "intergrid", "Preemption-aware routing (JPDC 2012, Figures 5 to 8)."),
    Packaged("acsc2011", "intergrid", "With against without preemption (ACSC 2011, abstract)."),
    Packaged("usla", "usla", "Usage agreements (Dumitrescu et al. 2007, Tables 1 to 7)."),
    Packaged(
        "hybrid",
        "hybrid",
        "Physical or virtual machines, and how sure (Thamarai Selvi et al., Figures 6 to 8).",
    ),
    Packaged(
        "victims",
        "victims",
        "Who gives way: rules of Kueue, Slurm and Haizea beside ours, and guarantees to guests.",
    ),
    Packaged("beyond", "beyond", "Routing policies of our own beside the published ones."),
)
EVALUATIONS = {one.name: one for one in _ALL}
EVERYTHING = "all"


def asked_for(names: Sequence[str]) -> dict[str, list[str]]:
    """Give the evaluations to run, in their own order, and their parts; no part is all of them.

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


def need_extra() -> None:
    """Name what to install where the extra is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    if any(find_spec(name) is None for name in ("scipy", "joblib")):
        raise NotInstalled("An evaluation with its intervals", "experiments")
