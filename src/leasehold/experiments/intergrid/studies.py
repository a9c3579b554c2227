"""Which publications are run again here, and what each of them says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leasehold.experiments.intergrid import acsc2011, contention, ica3pp2011, jpdc2012
from leasehold.experiments.intergrid.claims import Claim, Figure
from leasehold.model.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Study:
    """One publication.

    ``number``     what it is called on the command line
    ``file``       states what is run
    ``reference``  the policy to which the others are compared
    ``groups``     names that stand for several figures
    ``headline``   how the claims begin that the publication makes in its abstract or its conclusions
    ``quick_hours, quick_seeds``  what shows the shape in about two minutes
    """

    number: str
    file: str
    title: str
    source: str
    reference: str
    figures: Mapping[str, Figure]
    claims: Callable[[], list[Claim]]
    groups: Mapping[str, Sequence[str]]
    quick_hours: int
    quick_seeds: int
    headline: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which it and its figures are asked for: ``003``, ``003-fig5a``, ``003-table3``."""
        figures = (f"{self.number}-fig{figure}" for figure in self.figures)
        return self.number, *figures, *(f"{self.number}-{group}" for group in self.groups)

    def figures_named(self, names: Sequence[str]) -> list[str]:
        """List figures, in their order and each once; no name is all of them. Raises UnknownName."""
        wanted = {figure for name in names or [self.number] for figure in self._figures_of(name)}
        return [figure for figure in self.figures if figure in wanted]

    def _figures_of(self, name: str) -> Sequence[str]:
        if name not in self.names:
            raise UnknownName("figure", name, self.names)
        short = name.removeprefix(self.number).removeprefix("-")
        if short in self.groups:
            return self.groups[short]
        return [short.removeprefix("fig")] if short else list(self.figures)


JPDC_2012 = Study(
    number="003",
    file="jpdc2012.toml",
    title="Routing that avoids preemption",
    source="Salehi, Javadi, Buyya: QoS and preemption aware scheduling in federated and virtualized Grid "
    "computing environments, J. Parallel Distrib. Comput. 72 (2012), section 5",
    reference=jpdc2012.RR,
    figures=jpdc2012.FIGURES,
    claims=jpdc2012.claims,
    groups={"table3": [name for name in jpdc2012.FIGURES if name.startswith("8")]},
    quick_hours=6,
    quick_seeds=3,
    headline=jpdc2012.HEADLINE,
)

ICA3PP_2011 = Study(
    number="001",
    file="ica3pp2011.toml",
    title="Preemption-aware routing, its first evaluation",
    source="Salehi, Javadi, Buyya: Performance analysis of preemption-aware scheduling in multi-cluster Grid "
    "environments, ICA3PP 2011 (slides)",
    reference=ica3pp2011.RRP,
    figures=ica3pp2011.FIGURES,
    claims=ica3pp2011.claims,
    groups={},
    quick_hours=48,
    quick_seeds=10,
)

CONTENTION = Study(
    number="000",
    file="contention.toml",
    title="Who gives way",
    source="Salehi, Buyya: Contention-aware resource management system in a virtualized Grid federation "
    "(2011), section III",
    reference=contention.MOV,
    figures=contention.FIGURES,
    claims=contention.claims,
    groups={},
    quick_hours=6,
    quick_seeds=3,
)

ACSC_2011 = Study(
    number="acsc2011",
    file="acsc2011.toml",
    title="With against without preemption",
    source="Salehi, Javadi, Buyya: Resource provisioning based on preempting virtual machines in resource "
    "sharing environments, ACSC 2011 (abstract)",
    reference=acsc2011.NEVER,
    figures=acsc2011.FIGURES,
    claims=acsc2011.claims,
    groups={},
    quick_hours=6,
    quick_seeds=3,
)

STUDIES: Mapping[str, Study] = {
    study.number: study for study in (CONTENTION, ICA3PP_2011, JPDC_2012, ACSC_2011)
}
