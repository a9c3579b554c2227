"""How times and durations look on the wire."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.protocol.fields import (
    LATEST_MS,
    MAX_DURATION_S,
    moment_at,
    planned,
    read_duration,
    read_moment,
    show_duration,
    show_moment,
    unix_ms,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, LATEST_MS))
def test_a_time_comes_back_as_it_was_and_means_what_the_standard_library_thinks(at_ms: int) -> None:
    text = show_moment(at_ms)
    assert read_moment(text) == moment_at(at_ms)
    assert unix_ms(read_moment(text)) == at_ms
    assert datetime.fromisoformat(text) == EPOCH + timedelta(milliseconds=at_ms)
    assert len(text) == len("2026-11-21T10:43:36.120Z")


@given(st.integers(LATEST_MS, 2**63 - 1))
def test_times_without_a_four_digit_year_show_as_the_last_one_that_has_one(at_ms: int) -> None:
    assert show_moment(at_ms) == "9999-12-31T23:59:59.999Z"


def test_unknown_times_stay_unknown() -> None:
    assert planned(None) is None
    assert planned(-1) is None
    assert planned(0) == EPOCH


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.123000+00:00", 123),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_may_be_written_in_any_zone_that_is_said(text: str, at_ms: int) -> None:
    assert unix_ms(read_moment(text)) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21",
        "2026-11-21T10:43:36",
        "2026-11-21 10:43:36Z",
        "2026-11-21T10:43Z",
        "2026-13-21T10:43:36Z",
        "2026-11-21T10:43:60Z",
        "2026-11-21T10:43:36.1234Z",
        "2026-11-21T10:43:36Z\n",
        "\u0662026-11-21T10:43:36Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+25:00",
        "W2026-47-6T10:43:36Z",
        "",
        0,
        None,
        b"2026-11-21T10:43:36Z",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(text: object) -> None:
    with pytest.raises(ValueError, match="a time"):
        read_moment(text)


@given(st.integers(0, MAX_DURATION_S * 1000))
def test_a_duration_comes_back_as_it_was(duration_ms: int) -> None:
    shown = show_duration(duration_ms)
    assert read_duration(shown) == duration_ms
    assert isinstance(shown, int) == (duration_ms % 1000 == 0)


@given(st.integers(0, 10**12), st.integers(1, 9))
def test_a_duration_with_a_fourth_decimal_is_refused(tenths_of_ms: int, last: int) -> None:
    with pytest.raises(ValueError, match="three decimals"):
        read_duration((tenths_of_ms // 10 * 10 + last) / 10_000)


@pytest.mark.parametrize("seconds", [True, "1", None, float("nan"), float("inf"), 1.7e308, [1]])
def test_a_duration_is_a_number(seconds: object) -> None:
    with pytest.raises(ValueError, match="a number of seconds"):
        read_duration(seconds)
