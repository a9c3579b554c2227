"""Resource sets: near enough in memory, and no nearer than it must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.resource_sets import AS_PRINTED, BestFit
from leasehold.model.errors import InvalidField


@pytest.mark.parametrize(
    ("free_mib", "enough", "upper_mib"),
    [
        ([100, 105], 1, 110),
        ([110], 1, 110),
        ([111], 1, 120),
        ([100, 121, 500], 2, 130),
        ([100, 121, 500], 3, 500),
        ([100, 121, 501], 3, 510),
        ([100, 121], 3, None),
        ([], 1, None),
    ],
)
def test_the_window_for_100_mib_grows_by_10_until_enough_are_in_it(
    free_mib: list[int], enough: int, upper_mib: int | None
) -> None:
    assert AS_PRINTED.upper_mib(100, iter(free_mib), enough) == upper_mib


@given(
    st.integers(0, 50),
    st.integers(0, 20),
    st.integers(1, 9),
    st.lists(st.integers(0, 200)),
    st.integers(1, 4),
)
def test_it_is_what_growing_step_by_step_would_give(
    needed: int, value: int, step: int, more: list[int], enough: int
) -> None:
    free = sorted(needed + extra for extra in more)
    upper = BestFit(value, step).upper_mib(needed, iter(free), enough)
    if len(free) < enough:
        assert upper is None
        return
    grown = needed + value
    while sum(mib <= grown for mib in free) < enough:
        grown += step
    assert upper == grown


def test_a_window_that_does_not_grow_is_refused() -> None:
    with pytest.raises(InvalidField, match="step_mib of at least 1"):
        BestFit(10, 0)
