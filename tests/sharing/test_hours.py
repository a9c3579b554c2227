"""Nothing longer than 15 minutes from 08:00 to 20:00 (Dumitrescu et al. 2007, section 2.1)."""

from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import DailyHours
from leasehold.sharing.rules import earliest_start_ms

MIN = 60_000
HOUR = 60 * MIN
DAY = DailyHours(8 * 60, 20 * 60, "Europe/Amsterdam")
NIGHT = DailyHours(22 * 60, 6 * 60)


def at(text: str, zone: str = "Europe/Amsterdam") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def start(duration_ms: int, text: str, hours: DailyHours = DAY) -> str | None:
    found_ms = earliest_start_ms(duration_ms, hours, 15 * MIN, at(text, hours.zone))
    if found_ms is None:
        return None
    return datetime.fromtimestamp(found_ms / 1000, ZoneInfo(hours.zone)).strftime("%a %H:%M")


class TestDas:
    def test_a_long_job_in_the_morning_waits_for_the_evening(self) -> None:
        assert start(4 * HOUR, "2026-11-23T09:00") == "Mon 19:45"

    def test_it_may_begin_a_quarter_of_an_hour_before_the_hours_end(self) -> None:
        assert start(4 * HOUR, "2026-11-23T19:50") == "Mon 19:50"

    def test_one_that_runs_into_the_next_morning_waits_for_a_night_that_is_long_enough(self) -> None:
        assert start(4 * HOUR, "2026-11-23T05:00") == "Mon 19:45"
        assert start(3 * HOUR + 15 * MIN, "2026-11-23T05:00") == "Mon 05:00"

    def test_the_longest_that_ever_fits_is_a_night_and_two_quarters(self) -> None:
        assert start(12 * HOUR + 30 * MIN, "2026-11-23T09:00") == "Mon 19:45"
        assert start(12 * HOUR + 31 * MIN, "2026-11-23T09:00") is None

    def test_the_night_in_which_clocks_go_back_is_an_hour_longer(self) -> None:
        assert start(13 * HOUR + 30 * MIN, "2026-10-21T09:00") == "Sat 19:45"


class TestOverMidnight:
    def test_hours_may_end_on_the_next_day(self) -> None:
        assert start(2 * HOUR, "2026-11-23T23:00", NIGHT) == "Tue 05:45"
        assert start(2 * HOUR, "2026-11-23T01:00", NIGHT) == "Mon 05:45"
        assert start(2 * HOUR, "2026-11-23T12:00", NIGHT) == "Mon 12:00"


ZONES = st.sampled_from(["UTC", "Europe/Amsterdam", "America/St_Johns", "Asia/Kathmandu"])
MINUTES = st.integers(0, 24 * 60 - 1)


@given(MINUTES, MINUTES, ZONES, st.integers(0, 30 * 60), st.integers(0, 400 * 24 * 60), st.integers(0, 300))
def test_no_minute_later_within_the_hours_breaks_the_rule(
    begin_min: int, end_min: int, zone: str, duration_min: int, from_min: int, longest_min: int
) -> None:
    hours = DailyHours(begin_min, end_min, zone)
    from_ms = at("2026-01-01T00:00", "UTC") + from_min * MIN
    start_ms = earliest_start_ms(duration_min * MIN, hours, longest_min * MIN, from_ms)
    if start_ms is None:
        return
    assert start_ms >= from_ms
    run = within = 0
    for minute in range(duration_min):  # the longest stretch of minutes within the hours, by the wall's clock
        moment = datetime.fromtimestamp((start_ms + minute * MIN) / 1000, ZoneInfo(zone))
        now_min = moment.hour * 60 + moment.minute
        after_begin, before_end = now_min >= begin_min, now_min < end_min
        is_within = (after_begin and before_end) if begin_min < end_min else (after_begin or before_end)
        within = within + 1 if is_within else 0
        is_new_span = now_min == begin_min
        run = max(run, 1 if is_new_span else within)
        within = 1 if is_new_span else within
    assert run <= longest_min + 60  # an hour where clocks were changed
