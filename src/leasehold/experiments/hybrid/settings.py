"""What is run: as `hybrid.toml` states it, and the configurations that follow."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from leasehold.experiments.interpretation import Interpretation

HYBRID, PHYSICAL_ONLY, VIRTUAL_ONLY = "hybrid", "physical-only", "virtual-only"
AT_LAST = "hybrid-at-last"
PAPERS_QUEUE = "min-wait-deadline-first"
QUICK_COUNT = 120


@dataclass(frozen=True, slots=True)
class Configuration:
    """One run, but for its seed.

    ``part``         ``ablation``, ``queues`` or ``reliability``
    ``way``          whether jobs run on nodes as they are, in machines, or in these only where need be
    ``load``         work that is asked for over what the nodes could do
    ``retry_for_s``  for how long a job is tried again
    ``q``, ``asked``  of ``reliability``: how likely a node fails during a job, and how sure it is asked to be
    """

    name: str
    part: str
    way: str = HYBRID
    queue: str = PAPERS_QUEUE
    load: float = 0.0
    retry_for_s: int = 360
    q: float = 0.0
    asked: float = 0.0
    count: int = 0

    def as_data(self) -> dict[str, Any]:
        """Give what decides its results, as plain data."""
        return asdict(self) | {"said": said()}


@dataclass(frozen=True, slots=True)
class Plan:
    """All configurations, and how the paper is read; ``is_quick``: with fewer jobs in each."""

    configurations: Mapping[str, Configuration]
    interpretations: tuple[Interpretation, ...]
    is_quick: bool = False

    def of(self, part: str) -> list[Configuration]:
        """Give the configurations of a part, in their order."""
        return [one for one in self.configurations.values() if one.part == part]


@cache
def said() -> Mapping[str, Any]:
    """Read the file."""
    return tomllib.loads((files(__package__) / "hybrid.toml").read_text(encoding="utf-8"))


@cache
def plan(*, quick: bool = False) -> Plan:
    """Give what is run; the quick one has fewer jobs."""
    made = [*_ablation(quick=quick), *_queues(quick=quick), *_reliability(quick=quick)]
    read = tuple(Interpretation(**entry) for entry in said()["interpretation"])
    return Plan({one.name: one for one in made}, read, quick)


def configuration_named(name: str) -> Configuration:
    """Find a configuration by its name, in whatever plan it is."""
    return plan(quick=name.endswith("-quick")).configurations[name]


def _ablation(*, quick: bool) -> Iterator[Configuration]:
    for load in said()["ablation"]["loads"]:
        for way in said()["ablation"]["ways"]:
            name = _name(f"ablation-{way}-{load:g}", quick=quick)
            yield Configuration(name, "ablation", way=way, load=load, count=_count("job", quick=quick))


def _queues(*, quick: bool) -> Iterator[Configuration]:
    for retry_for_s in said()["queues"]["retry_for_s"]:
        for load in said()["queues"]["loads"]:
            for queue in said()["queues"]["names"]:
                yield Configuration(
                    _name(f"queues-{queue}-{load:g}-{retry_for_s}s", quick=quick),
                    "queues",
                    queue=queue,
                    load=load,
                    retry_for_s=retry_for_s,
                    count=_count("queues", quick=quick),
                )


def _reliability(*, quick: bool) -> Iterator[Configuration]:
    for q in said()["reliability"]["failure_probabilities"]:
        for asked in said()["reliability"]["asked"]:
            name = _name(f"reliability-{q:g}-{asked:g}", quick=quick)
            count = _count("reliability", quick=quick)
            yield Configuration(name, "reliability", q=q, asked=asked, count=count)


def _name(name: str, *, quick: bool) -> str:
    return f"{name}-quick" if quick else name


def _count(part: str, *, quick: bool) -> int:
    count: int = said()[part]["count"]
    return min(count, QUICK_COUNT) if quick else count
