"""How long would the whole published evaluation of routing take? A few of its runs, timed and scaled up.

    python -m bench.evaluation [--runs N] [--hours H]

The evaluation `leasehold reproduce 003` has 190 configurations of 48 hours, each 100 times: about a billion
requests. Runs are picked evenly over its configurations and shortened; a run of twice the hours has twice the
requests and takes about twice as long, so that time for each request is what is scaled.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from time import process_time

from leasehold.experiments.intergrid import world
from leasehold.experiments.intergrid.evaluation import REPLICATIONS
from leasehold.experiments.intergrid.plan import FederationRun, plan
from leasehold.simulation.scenario.sites import told_moments
from leasehold.simulation.scenario.sources import open_streams

STUDY = "003"
DAY_S = 86_400
FIRST = 1


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was timed, and what that makes of the whole; times are those of one processor."""

    runs: int
    requests: int
    cpu_s: float
    whole_runs: int
    whole_requests: int

    @property
    def whole_days(self) -> float:
        """Processor-days of the whole evaluation."""
        return self.cpu_s / self.requests * self.whole_requests / DAY_S


def evaluation(runs: int, hours: int) -> Evaluation:
    """Time some runs of so many hours, and count the requests of all."""
    every = list(plan(STUDY).configurations.values())
    picked = [replace(one, hours=min(hours, one.hours)) for one in spread(every, runs)]
    requests = sum(requests_of(one) for one in picked)
    began_s = process_time()
    for one in picked:
        world.run(one, FIRST)
    spent_s = process_time() - began_s
    return Evaluation(len(picked), requests, spent_s, len(every) * REPLICATIONS, REPLICATIONS * expected(every))


def spread(every: Sequence[FederationRun], count: int) -> Iterator[FederationRun]:
    """Pick some, evenly over all."""
    for place in range(min(count, len(every))):
        yield every[(2 * place + 1) * len(every) // (2 * min(count, len(every)))]


def requests_of(one: FederationRun) -> int:
    """Count the requests of a run."""
    return sum(1 for _ in open_streams(world.scenario(one, FIRST), []))


def expected(every: Sequence[FederationRun]) -> int:
    """Say how many requests all configurations have in one replication, by their rates."""
    return round(sum(rate_per_s(one) * one.hours * 3_600 for one in every))


def rate_per_s(one: FederationRun) -> float:
    """Say how many requests come in a second on average, by the moments of its streams."""
    told = told_moments(world.scenario(one, FIRST))
    streams = [*told.local.values(), *([told.external] if told.external else [])]
    return sum(stream.rate_per_s for stream in streams)


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.evaluation", description=__doc__)
    parser.add_argument("--runs", type=int, default=19)
    parser.add_argument("--hours", type=int, default=12)
    given = parser.parse_args()
    found = evaluation(given.runs, given.hours)
    print(json.dumps(asdict(found) | {"whole_days": found.whole_days}))


if __name__ == "__main__":
    main()
