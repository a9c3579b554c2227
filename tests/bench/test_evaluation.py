"""The benchmark of the evaluation times what it says, and scales it to what the evaluation has."""

import pytest

from bench.evaluation import evaluation, expected, requests_of, spread
from leasehold.experiments.intergrid.plan import plan

EVERY = list(plan("003").configurations.values())


def test_runs_are_picked_evenly_over_all_configurations() -> None:
    picked = list(spread(EVERY, 10))
    assert len(set(map(id, picked))) == 10
    assert {one.reading.name for one in picked} >= {"R2", "R0"}
    assert len(list(spread(EVERY, 10_000))) == len(EVERY)


def test_the_whole_has_about_a_billion_requests() -> None:
    assert 100 * expected(EVERY) == pytest.approx(1e9, rel=0.3)


def test_expected_requests_are_those_that_come() -> None:
    assert sum(map(requests_of, EVERY[:1])) == pytest.approx(expected(EVERY[:1]), rel=0.1)


def test_it_scales_what_it_has_timed() -> None:
    found = evaluation(2, 1)
    assert found.runs == 2
    assert found.whole_runs == 100 * len(EVERY)
    per_request_s = found.cpu_s / found.requests
    assert found.whole_days * 86_400 == pytest.approx(per_request_s * found.whole_requests)
