"""The product's run, job by job, against a simulation that shares no code with it (`oracle`)."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pytest
from tests.experiments import oracle

from leasehold.experiments.usla import world
from leasehold.experiments.usla.plan import AgreementRun, plan
from leasehold.experiments.usla.world import UslaWork, workload
from leasehold.forecasting.world import Handler
from leasehold.model.effect import Effect, StartLease, SuspendLease
from leasehold.model.request import Request
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.workload.job import WorkloadJob

HOUR_MS = 3_600_000
UNBALANCED_ONE = {"domains": 1, "jobs": (40, 170, 80)}
THIRTY = [Fraction(3, 10)] * 3
STEPS = [(Fraction(value, 10), Fraction(value, 10)) for value in (10, 5, 2, 1)]


def one_domain(row: str, **changes: Any) -> AgreementRun:
    """A row of Table 1 for one virtual domain, busier than on average and with unequal demand."""
    base = plan().configurations[plan().of_row(1, row)]
    return replace(base, **{**UNBALANCED_ONE, **changes})


@dataclass
class Starts:
    """Notes when each job starts, and that nobody is preempted."""

    at_ms: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.handlers: Mapping[type, Handler] = {StartLease: self.start, SuspendLease: self.suspend}

    def submitted(self, request: Request, job: WorkloadJob) -> None: ...

    def start(self, effect: StartLease, now_ms: int) -> None:
        self.at_ms[effect.lease.id] = now_ms

    def suspend(self, effect: Effect, now_ms: int) -> None:
        raise AssertionError(effect, now_ms)


def starts_of(configuration: AgreementRun, works: list[UslaWork]) -> dict[int, int]:
    noted = Starts()
    gateway = world.gateway(configuration, range(configuration.domains))
    for _ in SimulatedWorld(gateway, world.as_jobs(works), noted).run(HOUR_MS):
        pass
    return noted.at_ms


def expected(works: list[UslaWork], may: oracle.May) -> dict[int, int]:
    jobs = [(work.submit_ms, work.duration_ms, work.consumer) for work in works]
    return oracle.simulate(26, jobs, may, bounds_ms=300_000).starts


def step(_i: int, busy: Fraction) -> Fraction:
    return next((factor for reached, factor in STEPS if busy >= reached), Fraction(0))


def by_age(i: int, _busy: Fraction) -> Fraction:
    return (Fraction(1), Fraction(1, 2), Fraction(1, 5), Fraction(1, 10))[i]


RULES = {
    "no-limit": oracle.anybody,
    "commitment": oracle.commitment(THIRTY, 1_200_000, [Fraction(6, 10), Fraction(6, 10), Fraction(5, 10)], 300_000),
    "decay": oracle.decayed(THIRTY, 300_000, by_age, 3, cumulative=False, normalise=False),
    "udecay": oracle.decayed(THIRTY, 600_000, step, 3, cumulative=True, normalise=True),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("row", RULES)
def test_every_job_starts_when_a_second_reading_of_the_rules_says(row: str, seed: int) -> None:
    configuration = one_domain(row)
    works = workload(configuration, seed)
    assert starts_of(configuration, works) == expected(works, RULES[row])


@pytest.mark.parametrize("row", RULES)
def test_five_domains_behind_one_gateway_are_five_behind_their_own(row: str) -> None:
    configuration = one_domain(row, domains=5, jobs=(150, 300, 250))
    works = workload(configuration, 1)
    found = starts_of(configuration, works)
    for domain in range(5):
        numbers = [number for number, work in enumerate(works) if work.domain == domain]
        alone = starts_of(configuration, [works[number] for number in numbers])
        assert {numbers[index]: at_ms for index, at_ms in alone.items()} == {
            number: found[number] for number in numbers if number in found
        }


def test_a_run_is_the_same_each_time() -> None:
    configuration = one_domain("udecay")
    assert world.run(configuration, 4) == world.run(configuration, 4)
    assert world.run(configuration, 4) != world.run(configuration, 5)


def test_a_run_measures_what_happened() -> None:
    configuration = one_domain("no-limit")
    works = workload(configuration, 3)
    starts = expected(works, oracle.anybody)
    done = [i for i, at_ms in starts.items() if at_ms + works[i].duration_ms <= HOUR_MS]
    found = world.run(configuration, 3)
    assert found["comp"] == pytest.approx(100 * len(done) / len(works))
    assert found["util"] == pytest.approx(100 * sum(works[i].duration_ms for i in done) / (26 * HOUR_MS))
    waits_s = [(at_ms - works[i].submit_ms) / 1_000 for i, at_ms in starts.items()]
    assert found["response"] == pytest.approx(sum(waits_s) / len(waits_s))


def test_in_turn_no_more_jobs_of_a_consumer_wait_at_its_site_than_its_share_keeps_busy_and_one() -> None:
    configuration = one_domain("udecay", order="in-turn")
    gateway = world.gateway(configuration, [0])
    works = workload(configuration, 1)
    most = 0
    for _ in SimulatedWorld(gateway, world.as_jobs(works), Starts()).run(HOUR_MS):
        guests = gateway.sites["site1"].guests
        waiting = Counter(lease.request.consumer for lease in (guests.waiting() if guests else ()))
        most = max(most, *waiting.values(), 0)
    assert most == math.ceil(0.3 * 26) + 1
