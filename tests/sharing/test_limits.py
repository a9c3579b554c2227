"""The four kinds of limit by hand, on a provider of ten CPUs (Dumitrescu et al. 2007, section 4.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import CPUS, Commitment, Limit, NoLimit, TimeDecay, UsageDecay
from leasehold.model.use import Holding
from leasehold.sharing.ledger import UsageLedger, WatchedAccounts
from leasehold.sharing.limits import AccountUsage, Over, over, reach_ms
from leasehold.sharing.parties import Provider, Providers

KEY = ("atlas", "delft", CPUS)
EVERYBODYS = ("", "delft", CPUS)
S, MIN = 1_000, 60_000


def usage(*held: tuple[str, int, int, int]) -> AccountUsage:
    """Who held how many CPUs from when until when (s); an end of 0 is still to come."""
    ledger = UsageLedger(Providers([Provider("delft", {CPUS: 10})]))
    ledger.watch(WatchedAccounts(frozenset({KEY, EVERYBODYS}), 1 << 40), 0)
    begins = [(begin, 1, id_, who, cpus) for id_, (who, cpus, begin, _) in enumerate(held)]
    ends = [(end, 0, id_, who, cpus) for id_, (who, cpus, _, end) in enumerate(held) if end]
    for at_s, is_begin, id_, who, cpus in sorted(begins + ends):
        if is_begin:
            ledger.begin(id_, Holding(who, "delft", {CPUS: cpus}), at_s * S)
        else:
            ledger.end(id_, at_s * S)
    return AccountUsage(ledger, KEY)


class TestNoLimit:
    def test_nobody_is_ever_over_it(self) -> None:
        assert over(NoLimit(), usage(("atlas", 10, 0, 0)), 10**9) is None


class TestCommitment:
    LIMIT = Commitment(300_000, 20 * MIN, 600_000, 5 * MIN)

    def test_a_burst_is_used_up_before_the_epoch_is(self) -> None:
        # 6 of 10 CPUs for the whole burst of 300 s: 60%; of the epoch of 1200 s: 15%
        told = over(self.LIMIT, usage(("atlas", 6, 300, 0)), 600 * S - 1)
        assert told is None
        told = over(self.LIMIT, usage(("atlas", 10, 300, 480)), 500 * S)
        assert told == Over(600_000, 600_000, 5 * MIN, 600 * S, 600 * S)

    def test_the_epoch_is_used_up(self) -> None:
        # 9 CPUs for 400 s are 3600 of 12000 CPU-seconds
        told = over(self.LIMIT, usage(("atlas", 9, 0, 400)), 410 * S)
        assert told == Over(300_000, 300_000, 20 * MIN, 1_200 * S, 1_200 * S)

    def test_with_the_next_epoch_everything_may_be_used_again(self) -> None:
        assert over(self.LIMIT, usage(("atlas", 9, 0, 400)), 1_200 * S) is None

    def test_of_an_epoch_that_gives_nothing_nobody_waits_for_the_next(self) -> None:
        told = over(Commitment(0, 20 * MIN, 600_000, 5 * MIN), usage(), 0)
        assert told is not None
        assert told.next_ms is None


class TestTimeDecay:
    LIMIT = TimeDecay(300_000, 100 * S)

    def test_windows_weigh_1_half_a_fifth_and_a_tenth(self) -> None:
        held = usage(("atlas", 5, 0, 100), ("atlas", 4, 100, 200), ("atlas", 1, 200, 300), ("atlas", 2, 300, 350))
        # .2 * .5 + .1 * .5 + .4 * .2 + .5 * .1 = .28
        assert over(self.LIMIT, held, 350 * S) is None
        held = usage(("atlas", 5, 0, 100), ("atlas", 4, 100, 200), ("atlas", 1, 200, 300), ("atlas", 3, 300, 370))
        # .3 * .7 + .05 + .08 + .05 = .39; in the next window .21 * .5 + .1 * .2 + .4 * .1 = .165
        assert over(self.LIMIT, held, 370 * S) == Over(390_000, 300_000, 100 * S, 400 * S, 400 * S)

    def test_steady_use_of_the_whole_share_is_never_forgiven_unless_normalised(self) -> None:
        held = usage(("atlas", 3, 0, 0))
        assert over(self.LIMIT, held, 1_000 * S) is None  # .3 * (.5 + .2 + .1) = .24
        told = over(self.LIMIT, held, 1_030 * S)
        assert told is not None
        assert told.used_ppm == 330_000
        normalised = TimeDecay(300_000, 100 * S, normalise=True)
        assert over(normalised, held, 1_090 * S) is None  # (.27 + .24) / 1.8


class TestUsageDecay:
    LIMIT = UsageDecay(300_000, 100 * S)

    def test_use_of_a_busy_window_counts_in_full(self) -> None:
        busy = usage(("atlas", 4, 0, 100), ("cms", 6, 0, 100))
        assert over(self.LIMIT, busy, 100 * S) == Over(400_000, 300_000, 100 * S, 200 * S, 200 * S)

    def test_use_of_a_window_that_was_half_idle_counts_half(self) -> None:
        idle = usage(("atlas", 5, 0, 100))
        assert over(self.LIMIT, idle, 100 * S) is None  # .5 * F(.5) = .25

    def test_the_forecast_takes_present_use_to_go_on(self) -> None:
        told = over(self.LIMIT, usage(("atlas", 10, 0, 0)), 150 * S)
        assert told is not None
        assert told.next_ms is None


LIMITS = (
    Commitment(300_000, 400, 600_000, 100),
    TimeDecay(300_000, 100),
    TimeDecay(300_000, 100, normalise=True),
    UsageDecay(300_000, 100),
    UsageDecay(300_000, 100, normalise=True),
)
HELD = st.lists(
    st.tuples(st.sampled_from(["atlas", "cms"]), st.integers(1, 5), st.integers(0, 9), st.integers(1, 9)),
    max_size=6,
)


@pytest.mark.parametrize("limit", LIMITS)
@given(held=HELD, more_ppm=st.integers(0, 1_000_000))
def test_whoever_is_admitted_is_admitted_under_any_higher_limit(
    limit: Limit, held: list[tuple[str, int, int, int]], more_ppm: int
) -> None:
    seen = usage(*((who, cpus, begin, begin + span) for who, cpus, begin, span in held))
    if over(limit, seen, 20 * S) is None:
        assert over(_raised(limit, more_ppm), seen, 20 * S) is None


def _raised(limit: Limit, by_ppm: int) -> Limit:
    match limit:
        case Commitment():
            return Commitment(limit.epoch_ppm + by_ppm, limit.epoch_ms, limit.burst_ppm + by_ppm, limit.burst_ms)
        case TimeDecay():
            return TimeDecay(limit.share_ppm + by_ppm, limit.window_ms, limit.factors_ppm, limit.normalise)
        case UsageDecay():
            return UsageDecay(limit.share_ppm + by_ppm, limit.window_ms, limit.windows, limit.steps, limit.normalise)
    return limit


@pytest.mark.parametrize("limit", LIMITS)
@given(held=HELD, at_ms=st.integers(0, 40_000), later_ms=st.integers(0, 1_000))
def test_over_until_the_bound_means_until_the_bound(
    limit: Limit, held: list[tuple[str, int, int, int]], at_ms: int, later_ms: int
) -> None:
    seen = usage(*((who, cpus, begin, begin + span) for who, cpus, begin, span in held))
    told = over(limit, seen, at_ms)
    if told is not None and at_ms + later_ms < told.over_until_ms:
        assert over(limit, seen, at_ms + later_ms) is not None


def test_a_limit_looks_back_no_further_than_it_says() -> None:
    assert [reach_ms(limit) for limit in (NoLimit(), *LIMITS[:2], LIMITS[3])] == [0, 400, 400, 400]
