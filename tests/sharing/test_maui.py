"""Maui's fair share as a cross-check: another scheduler's formula, written from its description.

Maui keeps use in intervals (``FSINTERVAL``), the present one and ``FSDEPTH`` - 1 before it, and weighs each
by ``FSDECAY`` to the power of its age: ``usage = U_0 + sum over k of U_k * decay^k``. An absolute cap
compares that with a target; a relative cap the percentage that it is of the same sum over everybody.

That is eq 1 of Dumitrescu et al. 2007 with a constant factor. Maui refuses what would exceed the target;
section 4.1 refuses whoever is not below the limit, and looks before it adds the request. So caps are compared
as sums, not as decisions.
"""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import CPUS, MILLION, TimeDecay, UsageDecay
from leasehold.model.use import Holding
from leasehold.sharing.ledger import UsageLedger, WatchedAccounts, of_everybody
from leasehold.sharing.limits import AccountUsage, PastUse, decayed_ppm, time_decay_over, usage_decayed_ppm, weights_ppm
from leasehold.sharing.parties import Provider, Providers

HOUR_MS = 3_600_000
CPUS_THERE = 100
KEY = ("physics", "site", CPUS)
DECAYS_PPM = st.sampled_from([0, 100_000, 500_000, 800_000, 900_000, MILLION])
HOURS = st.lists(st.integers(0, CPUS_THERE), min_size=4, max_size=4)
"""CPUs held in four hours in turn, the first of them long ago."""


def maui_usage(intervals: Sequence[float], decay: float) -> float:
    """Processor time as Maui weighs it, of intervals with the present one first."""
    usage, weight = intervals[0], 1.0
    for use in intervals[1:]:
        weight *= decay
        usage += use * weight
    return usage


def ledger_of(physics: Sequence[int], others: Sequence[int]) -> UsageLedger:
    """A ledger in which these many CPUs were held, hour by hour."""
    ledger = UsageLedger(Providers([Provider("site", {CPUS: CPUS_THERE})]))
    ledger.watch(WatchedAccounts(frozenset({KEY, of_everybody(KEY)}), 4 * HOUR_MS, frozenset({HOUR_MS})), 0)
    for hour, held in enumerate(zip(physics, others, strict=True)):
        for number, (path, cpus) in enumerate(zip(("physics", "climate"), held, strict=True)):
            lease_id = 2 * hour + number
            ledger.begin(lease_id, Holding(path, "site", {CPUS: cpus}), hour * HOUR_MS)
            ledger.end(lease_id, (hour + 1) * HOUR_MS)
    return ledger


@given(HOURS, DECAYS_PPM, st.integers(1, HOUR_MS))
def test_a_constant_factor_is_mauis_decay(hours: list[int], decay_ppm: int, into_ms: int) -> None:
    """Looked at in the middle of the fourth hour: its use so far is U_0."""
    now_ms = 3 * HOUR_MS + into_ms - 1
    ledger = ledger_of(hours, [0] * 4)
    limit = UsageDecay(300_000, HOUR_MS, windows=3, steps=((0, decay_ppm),))
    ours = usage_decayed_ppm(limit, AccountUsage(ledger, KEY), now_ms)
    intervals = [hours[3] * (into_ms - 1), *(cpus * HOUR_MS for cpus in hours[2::-1])]
    maui = maui_usage(intervals, decay_ppm / MILLION) / (CPUS_THERE * HOUR_MS)
    assert ours == pytest.approx(MILLION * maui, abs=5)


@given(HOURS, st.sampled_from([0.1, 0.5, 0.8, 1.0]), st.integers(50_000, 900_000))
def test_time_decay_with_powers_of_it_is_mauis_absolute_cap(hours: list[int], decay: float, share_ppm: int) -> None:
    """At the begin of the fifth hour, so that all four are past."""
    now_ms = 4 * HOUR_MS
    factors = tuple(round(MILLION * decay**age) for age in range(5))
    limit = TimeDecay(share_ppm, HOUR_MS, factors)
    over = time_decay_over(limit, AccountUsage(ledger_of(hours, [0] * 4), KEY), now_ms)
    maui = maui_usage([0, *(cpus * HOUR_MS for cpus in reversed(hours))], decay) / (CPUS_THERE * HOUR_MS)
    if not math.isclose(maui * MILLION, share_ppm, abs_tol=5):
        assert (over is not None) is (maui * MILLION > share_ppm)


@given(HOURS, DECAYS_PPM)
def test_normalised_it_is_mauis_relative_cap_where_nothing_is_idle(hours: list[int], decay_ppm: int) -> None:
    """What everybody used is then the whole provider in each interval: the sum of the weights."""
    newest_first = hours[::-1]
    used = [cpus * HOUR_MS for cpus in newest_first]
    past = PastUse.of(used[1:], weights_ppm([decay_ppm] * 3))
    ours = decayed_ppm(used[0], past, CPUS_THERE * HOUR_MS, normalise=True)
    decay = decay_ppm / MILLION
    relative = maui_usage(newest_first, decay) / maui_usage([CPUS_THERE] * 4, decay)
    assert ours == pytest.approx(MILLION * relative, abs=5)


def test_an_idle_provider_forgets_where_maui_does_not() -> None:
    """What a load-dependent factor is for: 60 of 100 CPUs for an hour, and an idle site since then."""
    ledger = ledger_of([60, 0, 0, 0], [0, 0, 0, 0])
    udecay = UsageDecay(300_000, HOUR_MS)
    assert usage_decayed_ppm(udecay, AccountUsage(ledger, KEY), HOUR_MS) == 300_000  # .6 x the factor .5 of 60 % busy
    assert usage_decayed_ppm(udecay, AccountUsage(ledger, KEY), 2 * HOUR_MS) == 0
    assert maui_usage([0, 0, 60, 0], 0.5) == pytest.approx(15)
