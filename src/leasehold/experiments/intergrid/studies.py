"""Which publications are run again here: their figures, and what each claims of them.

Only what stands in the text can be compared: the figures themselves have no numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leasehold.experiments.intergrid.claims import (
    EVERYWHERE,
    LAST,
    Expects,
    Figure,
    FigureClaim,
    Term,
    Where,
    difference,
    falls,
    gap,
    grows,
    is_flat,
    is_least,
    is_most,
    less_by,
    rises,
)
from leasehold.model.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Study:
    """One publication.

    ``number``     its name on the command line
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
    claims: Callable[[], list[FigureClaim]]
    groups: Mapping[str, Sequence[str]]
    quick_hours: int = 6
    quick_seeds: int = 3
    headline: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of it and its figures on the command line: ``003``, ``003-fig5a``, ``003-table3``."""
        figures = (f"{self.number}-fig{figure}" for figure in self.figures)
        return self.number, *figures, *(f"{self.number}-{group}" for group in self.groups)

    def parts(self) -> Sequence[str]:
        """Give all of these but its own."""
        return self.names[1:]

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


def _sweeps(number: int, letters: str, metric: str, title: str, *beside: str) -> dict[str, Figure]:
    """Give the parts of a figure that shows one metric along several sweeps."""
    return {f"{number}{each}": Figure(f"{number}{each}", each, metric, title, beside) for each in letters}


# JPDC 2012, section 5.3

ROUTING = ("rr", "lrf-rnd", "bcf-rnd", "pap-rnd", "pap-rtdp")
RR, LRF, BCF, RND, RTDP = ROUTING
LONG, OFTEN, UP_TO_LONG = Where(above=300), Where(above=0.12), Where(below=300)
PREEMPTABLE = ("cancelable", "suspendable", "migratable")

TABLE_3 = {
    "8a": (2.4, 3.8),
    "8b": (9.3, 12.7),
    "8c": (2.6, 4.3),
    "8d": (5.9, 12.5),
    "8e": (0.14, 7.8),
    "8f": (2.1, 16.0),
    "8g": (0.02, 3.2),
}
"""Table 3: the 95 % interval of how much lower PAP-RTDP is than PAP-RND, percentage points."""


def _figures_of_jpdc() -> dict[str, Figure]:
    by_type = (f"vms_preempted_{kind}" for kind in PREEMPTABLE)
    others = ("guest_utilisation_pct", "occupancy_pct")
    awrt = "AWRT of best-effort requests, eq 24 (s)"
    figures = (
        _sweeps(5, "abcd", "vms_preempted", "VMs preempted", "leases_preempted", *by_type)
        | _sweeps(6, "abcd", "utilisation_pct", "Utilisation, eq 21 (%)", *others)
        | _sweeps(7, "abcd", "awrt_s", awrt, "awrt_pooled_s", "response_s")
    )
    unserved, np_title = ("migratable_unserved_pct",), "Rejected Non-preemptable requests (%)"
    for letter, migration, rejection in zip("abcd", "aceg", "bdfh", strict=True):
        one, two = f"8{migration}", f"8{rejection}"
        figures[one] = Figure(one, letter, "migration_pct", "Migration rate (%)", unserved)
        figures[two] = Figure(two, letter, "np_rejection_pct", np_title, ("local_rejection_pct",))
    return figures


def _claims_of_jpdc() -> list[FigureClaim]:
    made = [*_preempted(), *_utilisation(), *_response(), *_valuable()]
    return sorted(made, key=lambda claim: claim.figure)


def _preempted() -> Iterator[FigureClaim]:
    others, headline = ROUTING[:-1], "PAP-RTDP at least 60 % below every other policy (section 7)"
    for figure in ("5a", "5b", "5c", "5d"):
        yield rises(figure, ROUTING)
        yield is_least(figure, RTDP, ROUTING, "dispatch")
        yield less_by(figure, 0.6, headline, (RTDP, others))
    yield gap("5a", RND, RTDP, (2737.97, 3896.95), "dispatch")
    yield gap("5a", LRF, RND, (168.2, 1561.1), "allocation")
    yield gap("5b", RND, RTDP, (342, 2354.6), "dispatch", LONG)
    yield _drops("5b")
    yield less_by("5b", 0.6, "PAP-RTDP about 60 % below LRF-RND above 300", (RTDP, (LRF,)), LONG)
    yield gap("5c", RND, RTDP, (380.5, 4570), "dispatch")
    yield grows("5c", (RND, RTDP), 0.1, "PAP-RTDP gains more on PAP-RND at high external rates", "dispatch")
    yield gap("5d", RND, RTDP, (469.12, 3826.45), "dispatch", OFTEN)
    yield gap("5d", LRF, RND, (230.7, 4823.9), "allocation")
    yield grows("5d", (LRF, RND), 0.12, "PAP-RND gains more on LRF-RND at high local rates", "allocation")


def _utilisation() -> Iterator[FigureClaim]:
    for figure in ("6a", "6b", "6c", "6d"):
        yield is_most(figure, RTDP, ROUTING, "dispatch")
    yield gap("6a", RTDP, LRF, (12.5, 14.7), "size")
    yield gap("6a", LRF, RND, (2.2, 4.6), "allocation")
    yield gap("6b", RTDP, LRF, (7.3, 14.5), "size", LONG)
    yield gap("6b", LRF, RND, (0.9, 7.4), "allocation", LONG)
    yield gap("6c", RTDP, LRF, (1.5, 15.1), "size")
    yield gap("6d", RTDP, RND, (11.3, 18.3), "dispatch", OFTEN)


def _response() -> Iterator[FigureClaim]:
    half = "PAP-RTDP more than 50 % below RR, LRF-RND and BCF-RND"
    for figure in ("7a", "7b", "7c", "7d"):
        yield is_least(figure, RND, ROUTING, "response")
        bcf = (difference(RR, BCF), difference(LRF, BCF))
        yield FigureClaim(figure, "BCF-RND is below RR and LRF-RND", bcf, "response")
        yield less_by(figure, 0.5, half, (RTDP, (RR, LRF, BCF)))
    yield gap("7a", RTDP, RND, (3814.7, 4417), "response")
    yield gap("7b", RTDP, RND, (654.1, 4158), "response", LONG)
    yield _same("7b", UP_TO_LONG)
    yield gap("7c", RTDP, RND, (673.8, 4753.5), "response")
    yield gap("7d", RTDP, RND, (1516.4, 3784), "response", OFTEN)
    yield gap("7b", BCF, RTDP, (1863, 6456.2), "response")
    yield gap("7c", BCF, RTDP, (1665, 6115), "response")
    yield gap("7d", BCF, RTDP, (3595.8, 7661), "response")
    yield from (is_flat(figure, ROUTING) for figure in ("7a", "7c"))


def _valuable() -> Iterator[FigureClaim]:
    for figure, printed in TABLE_3.items():
        yield gap(figure, RND, RTDP, printed, "dispatch")
    for figure in ("8c", "8d"):
        yield _same(figure, UP_TO_LONG)
        yield _drops(figure)
    yield _same("8h")
    for figure in ("8e", "8f"):
        yield falls(figure, ROUTING)
    for letter in "abcdefgh":
        bcf = (difference(BCF, RR), difference(BCF, LRF))
        yield FigureClaim(f"8{letter}", "BCF-RND is above RR and LRF-RND", bcf, "valuable")


def _drops(figure: str) -> FigureClaim:
    ends = (Term(1, RTDP, UP_TO_LONG), Term(-1, RTDP, LONG))
    return FigureClaim(figure, "PAP-RTDP drops above 300 s", (ends,), "shape")


def _same(figure: str, where: Where = EVERYWHERE) -> FigureClaim:
    text = f"PAP-RTDP and PAP-RND do not differ{where.as_text}"
    return FigureClaim(figure, text, (difference(RND, RTDP, where),), "dispatch", Expects.NO_DIFFERENCE)


# The slides of ICA3PP 2011: one sentence, about the first of their figures


def _claims_of_ica3pp() -> list[FigureClaim]:
    text = "PAP-RND 22.5 % below the others at the last point"
    return [
        claim
        for figure in ("1a", "1b", "1c")
        for claim in (
            is_least(figure, RND, (RR, LRF, RND), "allocation"),
            less_by(figure, 0.225, text, (RND, (RR, LRF)), LAST),
        )
    ]


# Section III of Salehi and Buyya (2011), Figures 2 and 3; 4 and 5 are those of JPDC 2012, 5(b-d) and 8(c-h)

VICTIMS = ("mov", "mlip", "moml")
MOV, MLIP, MOML = VICTIMS
FEW_BEST_EFFORT_PCT = 30


def _claims_of_contention() -> list[FigureClaim]:
    few, many = Where(below=FEW_BEST_EFFORT_PCT), Where(above=FEW_BEST_EFFORT_PCT)
    between = (difference(MOV, MOML), difference(MOML, MLIP))
    nearer = (Term(1, MOV, many), Term(1, MLIP, many), Term(-2, MOML, many))
    same, text = (difference(MOV, MOML, few),), "MOML and MOV do not differ up to 30 %"
    return [
        rises("2a", VICTIMS),
        rises("2b", VICTIMS),
        falls("2c", VICTIMS),
        falls("3a", VICTIMS),
        rises("3b", VICTIMS),
        rises("3c", VICTIMS),
        *(
            claim
            for figure in ("3a", "3b", "3c")
            for claim in (
                is_least(figure, MLIP, VICTIMS, "victims"),
                FigureClaim(figure, "MOML lies between MLIP and MOV", between, "victims"),
            )
        ),
        FigureClaim("3b", text, same, "victims", Expects.NO_DIFFERENCE),
        FigureClaim("3b", "MOML is nearer to MLIP than to MOV above 30 %", (nearer,), "victims"),
    ]


# The abstract of ACSC 2011, about sweeps c and d; e is ours

PREEMPTING, NEVER = "preempting", "never"
MORE, NO_MORE = 1.72, 1.05


def _claims_of_acsc() -> list[FigureClaim]:
    served = "up to 72 % more local requests served, at the last point"
    rejected = "external requests are not rejected more often (5 % more at most)"
    strong, weak = (difference(PREEMPTING, NEVER, LAST, times) for times in (1 / MORE, 1.0))
    no_more = difference(NEVER, PREEMPTING, times=NO_MORE)
    return [
        claim
        for letter in "cd"
        for claim in (
            FigureClaim(f"1{letter}", served, (strong,), "preemption", weaker=(weak,)),
            FigureClaim(f"2{letter}", rejected, (no_more,), "rejection"),
        )
    ]


JPDC_2012 = Study(
    number="003",
    file="jpdc2012.toml",
    title="Routing that avoids preemption",
    source="Salehi, Javadi, Buyya: QoS and preemption aware scheduling in federated and virtualized Grid "
    "computing environments, J. Parallel Distrib. Comput. 72 (2012), section 5",
    reference=RR,
    figures=dict(sorted(_figures_of_jpdc().items())),
    claims=_claims_of_jpdc,
    groups={"table3": [f"8{letter}" for letter in "abcdefgh"]},
    headline=(  # in the abstract and in section 7, and in the sums of section 5.3.1
        "PAP-RTDP at least 60 %",
        "PAP-RTDP more than 50 %",
        "PAP-RTDP gains more",
        "PAP-RND gains more",
    ),
)

ICA3PP_2011 = Study(
    number="001",
    file="ica3pp2011.toml",
    title="Preemption-aware routing, its first evaluation",
    source="Salehi, Javadi, Buyya: Performance analysis of preemption-aware scheduling in multi-cluster Grid "
    "environments, ICA3PP 2011 (slides)",
    reference=RR,
    figures=_sweeps(1, "abc", "vms_preempted", "VMs preempted", "leases_preempted")
    | _sweeps(2, "abc", "utilisation_pct", "Utilisation (%)", "occupancy_pct")
    | _sweeps(3, "abc", "response_s", "Average response time (s)", "awrt_s"),
    claims=_claims_of_ica3pp,
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
    reference=MOV,
    figures=_sweeps(2, "abc", "utilisation_pct", "Utilisation (%)", "occupancy_pct")
    | _sweeps(3, "abc", "preemptions", "Lease preemptions", "leases_preempted", "vms_preempted"),
    claims=_claims_of_contention,
    groups={},
)

ACSC_2011 = Study(
    number="acsc2011",
    file="acsc2011.toml",
    title="With against without preemption",
    source="Salehi, Javadi, Buyya: Resource provisioning based on preempting virtual machines in resource "
    "sharing environments, ACSC 2011 (abstract)",
    reference=NEVER,
    figures=_sweeps(
        1,
        "cde",
        "local_served_pct",
        "Local requests served (%)",
        "local_rejection_pct",
        "vms_preempted",
        "occupancy_pct",
    )
    | _sweeps(
        2,
        "cde",
        "guest_rejection_pct",
        "External requests rejected (%)",
        "np_rejection_pct",
        "guest_work_vm_h",
    ),
    claims=_claims_of_acsc,
    groups={},
)

STUDIES: Mapping[str, Study] = {
    study.number: study for study in (CONTENTION, ICA3PP_2011, JPDC_2012, ACSC_2011)
}
