"""Intervals cover what they say, whatever the forecast is worth, and each prediction is scored once."""

import json
from itertools import chain, combinations, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.forecasting.calibration import (
    COVERAGE,
    ENOUGH,
    MISS,
    START,
    Calibration,
    Interval,
    Kind,
    Raw,
    interval_score,
    wilson,
)

KIND = Kind(START, "own", "das3")


def _raw(rng: Random, spread: float) -> Raw:
    """A forecast: the true median and a spread that may be wrong, both on the scale ln(1 + s)."""
    return Raw(rng.uniform(3, 8), spread, spread)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10_000), spread=st.floats(0.3, 3), bias=st.floats(-1, 1))
def test_whatever_is_wrong_with_the_forecast_nine_in_ten_are_covered(seed: int, spread: float, bias: float) -> None:
    """The truth is a normal error of one on the log scale; the forecast errs in its spread, its median, or both."""
    rng, calibration, covered, widths = Random(seed), Calibration(), 0, []
    count, now_ms = 1500, 0
    for _ in range(count):
        raw = _raw(rng, spread)
        interval = calibration.interval(KIND, raw, now_ms)
        at_ms = now_ms + max(0, Raw(raw.median + bias + rng.gauss(0, 0.6), 1, 1).at(0))
        covered += calibration.happened(KIND, raw, interval, now_ms, at_ms)
        widths.append(interval.high_ms - interval.low_ms)
        now_ms = at_ms
    low, high = wilson(covered, count, z=3.5)
    assert low <= COVERAGE <= high
    (score,) = [one for one in calibration.scores() if one.kind == KIND]
    assert (score.scored, score.covered, score.below + score.above) == (count, covered, count - covered)


def test_the_ends_hold_for_the_next_of_exchangeable_errors() -> None:
    """Split conformal prediction: with n errors seen, the next lies below the k-th smallest with k / (n + 1)."""
    rng, outside = Random(4), [0, 0]
    rounds = examples(4_000)
    for _ in range(rounds):
        calibration, now_ms = Calibration(), 0
        for _ in range(ENOUGH):
            raw = Raw(5.0, 1.0, 1.0)
            at_ms = now_ms + Raw(5 + rng.gauss(0, 0.5), 1, 1).at(0)
            calibration.happened(KIND, raw, Interval(now_ms, at_ms, 1 << 60), now_ms, at_ms)
            now_ms = at_ms
        errors = calibration._errors[KIND, False]
        errors.low = errors.high = MISS
        interval = calibration.interval(KIND, Raw(5.0, 1.0, 1.0), 0)
        at_ms = Raw(5 + rng.gauss(0, 0.5), 1, 1).at(0)
        outside[0] += at_ms < interval.low_ms
        outside[1] += at_ms > interval.high_ms
    for missed in outside:
        low, high = wilson(missed, rounds, z=3.5)
        assert low <= MISS <= high


def test_of_a_forecast_that_is_right_to_the_second_few_first_intervals_are_wide() -> None:
    """Its errors say so, each a little more; from the nineteenth on intervals are as narrow as these were small."""
    calibration, rng, widths, now_ms = Calibration(), Random(8), [], 0
    for _ in range(4 * ENOUGH):
        raw = Raw(rng.uniform(3, 6), 0.0, 0.0)
        interval = calibration.interval(KIND, raw, now_ms)
        widths.append((interval.high_ms - interval.low_ms) / raw.at(0))
        at_ms = now_ms + raw.at(0) + rng.randrange(-20, 21)
        calibration.happened(KIND, raw, interval, now_ms, at_ms)
        now_ms = at_ms
    assert widths[0] > 1
    assert all(later < earlier + 0.05 for earlier, later in pairwise(widths[:ENOUGH]))
    assert max(widths[ENOUGH:]) < 0.02


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=12))
def test_what_was_seen_counts_in_predictions_that_followed_one_another(spans: list[tuple[int, int]]) -> None:
    """Oracle: of all choices of predictions that do not overlap in time, the largest."""
    calibration, raw = Calibration(), Raw(3.0, 0.5, 0.5)
    made = sorted(((begin, begin + length) for begin, length in spans), key=lambda span: span[1])
    for begin_ms, end_ms in made:
        calibration.happened(KIND, raw, calibration.interval(KIND, raw, begin_ms), begin_ms, end_ms)
    most = max(
        len(chosen)
        for chosen in chain.from_iterable(combinations(made, count) for count in range(len(made) + 1))
        if all(one[1] <= other[0] for one, other in pairwise(chosen))
    )
    assert calibration._errors[KIND, False].in_turn == most


def test_many_errors_about_one_queue_do_not_narrow_intervals_as_those_about_many_do() -> None:
    """All are of a forecast that was right; a hundred made at once still leave most of the first doubt."""
    raw, at_once, in_turn = Raw(5.0, 0.5, 0.5), Calibration(), Calibration()
    first = at_once.interval(KIND, raw, 0)
    lead_ms = raw.at(0)
    for turn in range(100):
        at_once.happened(KIND, raw, first, 0, lead_ms)
        now_ms = turn * lead_ms
        in_turn.happened(KIND, raw, in_turn.interval(KIND, raw, now_ms), now_ms, now_ms + lead_ms)

    def width(calibration: Calibration) -> int:
        interval = calibration.interval(KIND, raw, 0)
        return interval.high_ms - interval.low_ms

    assert width(at_once) > (first.high_ms - first.low_ms) / 2
    assert width(in_turn) < width(at_once) / 10


def test_a_lease_without_a_site_is_counted_once() -> None:
    calibration, kind, raw = Calibration(), Kind(START, "suspendable"), Raw(3.0, 0.5, 0.5)
    calibration.happened(kind, raw, calibration.interval(kind, raw, 0), 0, raw.at(0))
    assert [(one.kind, one.scored) for one in calibration.scores()] == [(kind, 1), (Kind(START, ""), 1)]


def test_a_prediction_whose_interval_is_over_is_missed_at_once_and_scored_once() -> None:
    calibration, raw = Calibration(), Raw(3.0, 0.5, 0.5)
    interval = calibration.interval(KIND, raw, 1_000)
    calibration.overdue(KIND, raw, interval, 1_000)
    (score,) = [one for one in calibration.scores() if one.kind == KIND]
    assert (score.scored, score.covered, score.above) == (1, 0, 1)
    calibration.happened(KIND, raw, interval, 1_000, interval.high_ms + 60_000, was_overdue=True)
    (score,) = [one for one in calibration.scores() if one.kind == KIND]
    assert (score.scored, score.covered, score.above) == (1, 0, 1)
    assert score.off > 0


def test_what_was_learnt_outlives_the_process() -> None:
    calibration, rng = Calibration(), Random(1)
    for _ in range(60):
        raw = _raw(rng, 1.0)
        calibration.happened(KIND, raw, calibration.interval(KIND, raw, 5), 5, 5 + rng.randrange(1, 10**6))
    again = Calibration.recalled(json.loads(json.dumps(calibration.memory())))
    assert again.memory() == calibration.memory()
    assert again.scores() == calibration.scores()
    assert again.interval(KIND, Raw(4.0, 1.0, 2.0), 7) == calibration.interval(KIND, Raw(4.0, 1.0, 2.0), 7)


def test_the_interval_score_is_least_for_the_true_quantiles() -> None:
    """Proper: of all intervals, that of the 5 % and 95 % quantiles of what happens has the least mean score."""
    rng = Random(2)
    happened = [Raw(5 + rng.uniform(-1, 1), 1, 1).at(0) for _ in range(4_000)]

    def mean(below: float, above: float) -> float:
        interval = Interval(Raw(5 - below, 1, 1).at(0), 0, Raw(5 + above, 1, 1).at(0))
        return sum(interval_score(interval, 0, at_ms) for at_ms in happened) / len(happened)

    best = mean(0.9, 0.9)
    assert all(mean(*other) > best for other in ((0.7, 0.9), (0.9, 0.7), (1.1, 0.9), (0.9, 1.1), (0.5, 0.5), (2, 2)))
    assert interval_score(Interval(0, 0, 0), 0, 0) == pytest.approx(0)
