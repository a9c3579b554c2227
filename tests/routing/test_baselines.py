"""RR, LRF and BCF: the shares that PAP is compared with."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.routing.proportional import (
    biggest_cluster_first_proportions,
    least_rate_first_proportions,
    round_robin_proportions,
)


def test_the_shares_on_table_2_of_jpdc_2012() -> None:
    assert round_robin_proportions(3) == (1 / 3, 1 / 3, 1 / 3)
    assert least_rate_first_proportions([0.0306, 0.0383, 0.0511]) == pytest.approx((0.372, 0.340, 0.287), abs=6e-4)
    assert biggest_cluster_first_proportions([64 * 2000, 128 * 3000, 256 * 2100]) == pytest.approx(
        (0.122, 0.366, 0.512), abs=5e-4
    )


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_lrf_shares_sum_to_one_and_fall_with_the_local_rate(rates: list[float]) -> None:
    shares = least_rate_first_proportions(rates)
    assert sum(shares) == pytest.approx(1)
    by_rate = [share for _, share in sorted(zip(rates, shares, strict=True))]
    assert all(earlier >= later for earlier, later in pairwise(by_rate))


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50))
def test_bcf_shares_sum_to_one_in_proportion_to_power(powers: list[int]) -> None:
    shares = biggest_cluster_first_proportions(powers)
    assert sum(shares) == pytest.approx(1)
    assert [share * sum(powers) for share in shares] == pytest.approx(powers)


def test_nobody_asks_locally_then_all_get_the_same_and_a_single_cluster_gets_all() -> None:
    assert least_rate_first_proportions([0.0, 0.0]) == (0.5, 0.5)
    assert least_rate_first_proportions([3.0]) == (1.0,)
    assert least_rate_first_proportions([3.0, 0.0]) == (0.0, 1.0)


def test_what_makes_no_sense_is_refused_by_name() -> None:
    with pytest.raises(InvalidField, match="local rate: got -1"):
        least_rate_first_proportions([0.5, -1.0])
    with pytest.raises(InvalidField, match="cluster_mips: got 0"):
        biggest_cluster_first_proportions([100, 0])
    for without_clusters in (biggest_cluster_first_proportions, least_rate_first_proportions):
        with pytest.raises(InvalidField, match="clusters: got 0"):
            without_clusters([])
