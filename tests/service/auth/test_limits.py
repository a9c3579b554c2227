"""How often somebody may ask: beside a bucket of tokens that is filled and emptied by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.service.auth.errors import TooManyRequests
from leasehold.service.auth.limits import Limiter, RateLimit, address_key


class Bucket:
    """What a limit means: full at first, one out for each request, refilled at a steady rate."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._left, self._at_s = float(limit.burst), 0.0

    def wait_s(self, now_s: float, cost: int = 1) -> float:
        """Take what it costs where there is one, on credit, or take none and wait for one."""
        gained = (now_s - self._at_s) * self._limit.rate_per_s
        self._left, self._at_s = min(self._limit.burst, self._left + gained), now_s
        if self._left < 1:
            return (1 - self._left) / self._limit.rate_per_s
        self._left -= cost
        return 0.0


def wait_s(limiter: Limiter, key: str, now_s: float, cost: int = 1) -> float:
    try:
        limiter.take(key, now_s, cost)
    except TooManyRequests as refusal:
        return refusal.wait_s
    return 0.0


# Powers of two, so that floats are exact.
rates = st.sampled_from([0.25, 0.5, 1, 2, 8, 64])
pauses = st.lists(st.integers(0, 64).map(lambda eighths: eighths / 8), max_size=40)


@given(rate=rates, burst=st.integers(1, 9), pauses_s=pauses)
def test_it_lets_pass_what_a_bucket_of_tokens_does(rate: float, burst: int, pauses_s: list[float]) -> None:
    limit, now_s = RateLimit(rate, burst), 0.0
    limiter, bucket = Limiter(limit, "too much"), Bucket(limit)
    for pause_s in pauses_s:
        now_s += pause_s
        assert wait_s(limiter, "physics", now_s) == bucket.wait_s(now_s)


@given(rate=rates, burst=st.integers(1, 9), asked=st.lists(st.tuples(st.integers(0, 64), st.integers(0, 20))))
def test_what_costs_more_takes_more_out_of_the_bucket(rate: float, burst: int, asked: list[tuple[int, int]]) -> None:
    limit, now_s = RateLimit(rate, burst), 0.0
    limiter, bucket = Limiter(limit, "too much"), Bucket(limit)
    for eighths, cost in asked:
        now_s += eighths / 8
        assert wait_s(limiter, "physics", now_s, cost) == bucket.wait_s(now_s, cost)


@given(rate=rates, burst=st.integers(1, 9))
def test_who_waits_as_long_as_was_said_may_ask(rate: float, burst: int) -> None:
    limiter = Limiter(RateLimit(rate, burst), "too much")
    for _ in range(burst):
        limiter.take("physics", 0)
    waited_s = wait_s(limiter, "physics", 0)
    assert waited_s > 0
    assert wait_s(limiter, "physics", waited_s) == 0


def test_everybody_has_a_limit_of_their_own() -> None:
    limiter = Limiter(RateLimit(1, 1), "too much")
    limiter.take("physics", 0)
    limiter.take("climate", 0)
    with pytest.raises(TooManyRequests, match=r"^too much; wait 1 s$"):
        limiter.take("physics", 0)


def test_a_refused_request_does_not_count() -> None:
    limiter = Limiter(RateLimit(1, 1), "too much")
    limiter.take("physics", 0)
    assert [wait_s(limiter, "physics", 0.5) for _ in range(100)] == [0.5] * 100
    assert wait_s(limiter, "physics", 1) == 0


def test_a_rate_of_nought_is_no_limit() -> None:
    limiter = Limiter(RateLimit(0, 1), "too much")
    assert [wait_s(limiter, "physics", 0) for _ in range(1_000)] == [0] * 1_000
    assert not limiter._full_s


def test_only_the_latest_are_known() -> None:
    limiter = Limiter(RateLimit(1, 1), "too much", most=100)
    for number in range(1_000):
        limiter.take(str(number), 0)
    assert len(limiter._full_s) == 100
    assert wait_s(limiter, "999", 0) > 0
    assert wait_s(limiter, "0", 0) == 0


def test_who_asks_again_and_again_is_not_forgotten_for_others() -> None:
    limiter = Limiter(RateLimit(1, 2), "too much", most=2)
    limiter.take("physics", 0)
    for number in range(9):
        limiter.count("physics", 0)
        limiter.take(str(number), 0)
    assert wait_s(limiter, "physics", 0) > 0


@pytest.mark.parametrize(
    ("rate", "burst", "field"),
    [
        (-1, 1, "requests_per_s"),
        (math.inf, 1, "requests_per_s"),
        (math.nan, 1, "requests_per_s"),
        (1, 0, "burst"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(rate: float, burst: int, field: str) -> None:
    with pytest.raises(InvalidField) as error:
        RateLimit(rate, burst)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::7", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_address_is_counted_with_its_neighbours(address: str, key: str) -> None:
    assert address_key(address) == key
