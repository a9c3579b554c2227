"""The benchmark runs, and serves as many with either way of matching."""

from bench.matching import matching


def test_a_small_one() -> None:
    found = matching(jobs=20, nodes=200, single=10)
    assert found.optimal_mean_weight_s <= found.greedy_mean_weight_s
    assert found.optimal_served >= found.greedy_served > 0
    assert found.jobs == 20
