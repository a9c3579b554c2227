"""Devices, one by one: what is said to be free is what an oracle finds that counts the shares of each."""

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.devices import Devices, can_be_free, devices_of, have_room, have_shares, less, more
from leasehold.matching.needs import Amounts, Needs
from leasehold.model.errors import InvalidField

MILLI = st.integers(1, 999) | st.sampled_from([250, 500, 1_000, 2_000, 3_000])
SHARES = st.sampled_from([1, 2, 3, 4, 7, 999, 1_000])


@pytest.mark.parametrize(
    ("gpu_milli", "devices"),
    [(0, ()), (1, (1,)), (500, (500,)), (1_000, (1_000,)), (3_000, (1_000, 1_000, 1_000))],
)
def test_a_machine_has_whole_devices_or_a_part_of_one(gpu_milli: int, devices: Devices) -> None:
    assert devices_of(gpu_milli) == devices


@pytest.mark.parametrize("gpus", [(500, 500), (1_000, 500), (1_500,), (250, 250, 250, 250)])
def test_a_job_cannot_need_anything_else(gpus: Devices) -> None:
    with pytest.raises(InvalidField, match=r"gpus: got .*, expected whole GPUs, or a fraction of one"):
        Needs(amounts=Amounts(1, 1, 0, gpus), execution_ms=1)


@given(st.integers(0, 3), SHARES, st.lists(MILLI, max_size=12))
def test_what_is_free_is_what_is_left_of_each_device(count: int, shares: int, asked: list[int]) -> None:
    used = [Fraction(0)] * count
    free: Devices = (1_000,) * count
    given_away: list[int] = []
    for gpu_milli in asked:
        whole, part = divmod(gpu_milli, 1_000)
        takes = [Fraction(1)] * whole or [Fraction(ceil(Fraction(part, 1_000) * shares), shares)]
        able = [i for i, one in enumerate(used) if one + takes[0] <= 1]
        assert have_room(free, devices_of(gpu_milli)) == (len(able) >= len(takes))
        if len(able) < len(takes):
            continue
        fullest = sorted(able, key=lambda i: -used[i])[: len(takes)]
        for device, take in zip(fullest, takes, strict=True):
            used[device] += take
        free = less(free, devices_of(gpu_milli), shares)
        given_away.append(gpu_milli)
        assert free == tuple(sorted((floor(1_000 * (1 - one)) for one in used), reverse=True))
        assert can_be_free(free, count, shares)
        assert have_shares((1_000,) * count, tuple(part for one in given_away for part in devices_of(one)), shares)


@given(st.integers(0, 3), SHARES, st.lists(MILLI, max_size=6), st.lists(MILLI, max_size=6))
def test_neither_more_nor_less_than_there_is_can_be_free(
    count: int, shares: int, taken: list[int], back: list[int]
) -> None:
    free: Devices = (1_000,) * count
    for one in taken:
        free = less(free, devices_of(one), shares)
        assert can_be_free(free, count, shares)
    for one in back:
        free = more(free, devices_of(one), shares)
        assert can_be_free(free, count, shares)


@given(SHARES, MILLI.filter(lambda one: one <= 1_000))
def test_what_one_machine_alone_has_taken_and_given_back_is_free_again(shares: int, gpu_milli: int) -> None:
    taken = less((1_000, 1_000), (gpu_milli,), shares)
    assert taken[0] == 1_000 > taken[1]
    assert more(taken, (gpu_milli,), shares) == (1_000, 1_000)


def test_where_nobody_knows_how_all_have_room_the_shares_are_missing_all_the_same() -> None:
    """The largest first, two devices of ten shares have no room for the last: in another order they had it."""
    taken = (500, 400, 400, 300, 200, 200)
    assert less((1_000, 1_000), taken, 10) == (0, 0)
    assert have_shares((1_000, 1_000), taken, 10)
    assert not have_shares((1_000, 1_000), (*taken, 100), 10)
