"""What is run: as `hybrid.toml` states it, and the configurations that follow."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from leasehold.experiments import evaluation

HYBRID, PHYSICAL_ONLY, VIRTUAL_ONLY = "hybrid", "physical-only", "virtual-only"
AT_LAST = "hybrid-at-last"
PAPERS_QUEUE = "min-wait-deadline-first"
QUICK, QUICK_COUNT = "-quick", 120
MEASURED = 8
FIGURES = (6, 7, MEASURED)
PREFIX = "004-fig"


@dataclass(frozen=True, slots=True)
class JobRun(evaluation.Configuration):
    """Jobs on the nodes of one site.

    ``part``         ``ablation``, ``queues`` or ``reliability``
    ``way``          whether jobs run on nodes as they are, in machines, or in these only where need be
    ``load``         work that is asked for over what the nodes could do
    ``retry_for_s``  for how long a job is tried again
    ``q``, ``asked``  of ``reliability``: the probability that a node fails during a job, and what is asked
    """

    part: str
    way: str = HYBRID
    queue: str = PAPERS_QUEUE
    load: float = 0.0
    retry_for_s: int = 360
    q: float = 0.0
    asked: float = 0.0
    count: int = 0

    def as_data(self) -> dict[str, Any]:
        """Give what decides its results, as plain data: no words about it."""
        words = ("interpretation", "why", "section_5")
        return asdict(self) | {"stated": {key: value for key, value in stated().items() if key not in words}}


@dataclass(frozen=True, slots=True)
class HybridPlan(evaluation.Plan[JobRun]):
    """All configurations; ``is_quick``: with fewer jobs in each; ``figures``: those that are shown."""

    is_quick: bool = False
    figures: tuple[int, ...] = FIGURES

    @property
    def is_whole(self) -> bool:
        """Whether everything is run, not some figures alone."""
        return self.figures == FIGURES

    def only(self, figures: Collection[int]) -> "HybridPlan":
        """Give the plan of these figures alone; 6 and 7 are formulas and need no runs."""
        needed = self.of("reliability") if MEASURED in figures else []
        return HybridPlan(
            self.stated,
            {one.name: one for one in needed},
            self.is_quick,
            tuple(one for one in FIGURES if one in figures),
        )

    def of(self, part: str) -> list[JobRun]:
        """Give the configurations of a part, in their order."""
        return [one for one in self.configurations.values() if one.part == part]


def stated() -> Mapping[str, Any]:
    """Read the file."""
    return evaluation.read(__package__, "hybrid.toml")


@cache
def plan(*, quick: bool = False) -> HybridPlan:
    """Give what is run; the quick one has fewer jobs."""
    made = {one.name: one for one in _configurations(quick=quick)}
    return HybridPlan(stated(), made, quick)


def parts() -> list[str]:
    """Name what can be run alone: ``004-fig6``."""
    return [f"{PREFIX}{number}" for number in FIGURES]


def plan_of(names: Sequence[str], *, quick: bool) -> HybridPlan:
    """Give the plan of some parts, by their names; no name is everything."""
    whole = plan(quick=quick)
    return whole.only({int(name.removeprefix(PREFIX)) for name in names}) if names else whole


def configuration_named(name: str) -> JobRun:
    """Find a configuration of any plan by its name."""
    return plan(quick=name.endswith(QUICK)).configurations[name]


def _configurations(*, quick: bool) -> Iterator[JobRun]:
    ablation, queues, reliability = (stated()[part] for part in ("ablation", "queues", "reliability"))
    suffix = QUICK if quick else ""

    def count(part: str) -> int:
        whole: int = stated()[part]["count"]
        return min(whole, QUICK_COUNT) if quick else whole

    for load in ablation["loads"]:
        for way in ablation["ways"]:
            name = f"ablation-{way}-{load:g}{suffix}"
            yield JobRun(name, "ablation", way=way, load=load, count=count("job"))
    for retry_for_s in queues["retry_for_s"]:
        for load in queues["loads"]:
            for queue in queues["names"]:
                name = f"queues-{queue}-{load:g}-{retry_for_s}s{suffix}"
                tried = {"load": load, "retry_for_s": retry_for_s}
                yield JobRun(name, "queues", queue=queue, count=count("queues"), **tried)
    for q in reliability["failure_probabilities"]:
        for asked in reliability["asked"]:
            name = f"reliability-{q:g}-{asked:g}{suffix}"
            yield JobRun(name, "reliability", q=q, asked=asked, count=count("reliability"))
