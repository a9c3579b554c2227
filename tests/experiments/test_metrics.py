"""The metrics of section 4.3: by hand, and against a sum over every millisecond."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.experiments.usla.plan import METRICS
from leasehold.experiments.usla.world import Meter

HORIZON_MS = 1_000
CELL = (0, 0)


def test_a_starved_consumer_by_hand() -> None:
    """Of 10 CPUs it is entitled to 3, and two of its jobs wait for half of the time while one runs."""
    meter = Meter(slots_per_domain=10, domains=1, shares=[0.3], horizon_ms=HORIZON_MS)
    for _ in range(3):
        meter.submit(CELL, 0)
    meter.start(CELL, 0, 0)
    meter.start(CELL, 500, 500)
    meter.start(CELL, 500, 500)
    meter.complete(CELL, 1_000, 1_000)
    found = meter.read()
    # 2 CPUs missing and wanted for 500 ms; 1 CPU used for 500 ms, then 3.
    assert found["starv"] == pytest.approx(100 * 1_000 / (500 + 1_500))
    assert found["violation"] == 0
    assert found["util"] == pytest.approx(100 * 1_000 / 10_000)
    assert found["comp"] == pytest.approx(100 / 3)
    assert found["response"] == pytest.approx((0 + 0.5 + 0.5) / 3)


def test_who_waits_for_less_than_its_share_is_starved_of_what_it_waits_for() -> None:
    meter = Meter(10, 1, [0.3], HORIZON_MS)
    meter.submit(CELL, 0)
    meter.submit((0, 0), 0)
    meter.start(CELL, 0, 0)
    # Entitled to 3, uses 1, wants 1 more: 1 CPU is withheld, not 2.
    assert meter.read()["starv"] == pytest.approx(100)


def test_what_is_used_above_the_share_is_the_violation() -> None:
    meter = Meter(slots_per_domain=10, domains=1, shares=[0.25], horizon_ms=HORIZON_MS)
    for _ in range(4):
        meter.submit(CELL, 0)
        meter.start(CELL, 0, 0)
    for _ in range(4):
        meter.complete(CELL, 600, 600)
    found = meter.read()
    # 1.5 CPUs above 2.5 for 600 ms, of 10 CPUs for a second.
    assert found["violation"] == pytest.approx(100 * 1.5 * 600 / 10_000)
    assert found["starv"] == 0


def test_only_what_completed_counts_as_utilisation() -> None:
    meter = Meter(2, 1, [1.0], HORIZON_MS)
    meter.submit(CELL, 0)
    meter.start(CELL, 0, 0)
    assert meter.read()["util"] == 0


def test_a_run_in_which_nothing_happens_is_no_error() -> None:
    assert Meter(2, 1, [1.0], HORIZON_MS).read() == dict.fromkeys(METRICS, 0)


lives = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(1, 40),
    ),
    max_size=12,
)
"""Jobs: consumer, virtual domain, submission, wait and length."""


@given(lives, st.sampled_from([(0.3, 0.3), (0.2, 0.5), (0.25, 1.0)]))
def test_summed_over_every_moment(jobs: list[tuple[int, ...]], shares: tuple[float, float]) -> None:
    horizon_ms, slots = 60, 6
    meter = Meter(slots, 2, shares, horizon_ms)
    told = [(submit, 0, "submit", job) for job in jobs for submit in [job[2]]]
    told += [(job[2] + job[3], 1, "start", job) for job in jobs]
    told += [(job[2] + job[3] + job[4], 2, "complete", job) for job in jobs]
    for moment, _, what, job in sorted(told, key=lambda event: event[:2]):
        if moment > horizon_ms:
            continue
        cell = (job[0], job[1])
        if what == "submit":
            meter.submit(cell, moment)
        elif what == "start":
            meter.start(cell, job[3], moment)
        else:
            meter.complete(cell, job[4], moment)
    found = meter.read()
    starved, above, used = brute_force(jobs, shares, slots, horizon_ms)
    assert found["starv"] == pytest.approx(float(100 * starved / max(1, used)))
    assert found["violation"] == pytest.approx(float(100 * above / (2 * slots * horizon_ms)))


def brute_force(
    jobs: list[tuple[int, ...]], shares: tuple[float, float], slots: int, horizon_ms: int
) -> tuple[Fraction, Fraction, int]:
    """Look at every millisecond, consumer and domain."""
    starved, above, used = Fraction(0), Fraction(0), 0
    for moment in range(horizon_ms):
        for consumer, share in enumerate(shares):
            for domain in range(2):
                own = [job[2:] for job in jobs if job[:2] == (consumer, domain)]
                runs = sum(s + w <= moment < s + w + d for s, w, d in own)
                waits = sum(s <= moment < s + w for s, w, _ in own)
                entitled = Fraction(str(share)) * slots
                starved += min(max(Fraction(0), entitled - runs), Fraction(waits))
                above += max(Fraction(0), runs - entitled)
                used += runs
    return starved, above, used
