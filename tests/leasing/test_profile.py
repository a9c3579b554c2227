"""The availability profile against the plainest thing that could do its job: an array of seconds."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.kernel import Profile
from leasehold.model.request import NEVER_MS

SLOTS = 8
END = 40

windows = st.tuples(st.integers(0, END - 2), st.integers(1, 10), st.integers(1, 3))


class Array:
    """Free VMs, second by second."""

    def __init__(self) -> None:
        self.free = [SLOTS] * (2 * END)

    def take(self, start: int, end: int, vms: int) -> None:
        for second in range(start, end):
            self.free[second] -= vms

    def earliest(self, from_: int, span: int, vms: int) -> int:
        start = from_
        while min(self.free[start : start + span]) < vms:
            start += 1
        return start


def booked(bookings: list[tuple[int, int, int]]) -> tuple[Profile, Array]:
    profile, array = Profile(SLOTS), Array()
    for start, span, vms in bookings:
        profile.take(start, start + span, vms)
        array.take(start, start + span, vms)
    return profile, array


@given(st.lists(windows, max_size=12))
def test_it_says_what_an_array_says(bookings: list[tuple[int, int, int]]) -> None:
    profile, array = booked(bookings)
    assert [profile.free_at(second) for second in range(END)] == array.free[:END]


@given(st.lists(windows, max_size=12), windows)
def test_the_lowest_of_a_window(bookings: list[tuple[int, int, int]], window: tuple[int, int, int]) -> None:
    profile, array = booked(bookings)
    start, span, _ = window
    assert profile.lowest(start, start + span) == min(array.free[start : start + span])


@given(st.lists(windows, max_size=12), windows, st.integers(0, END))
def test_the_earliest_start(bookings: list[tuple[int, int, int]], wanted: tuple[int, int, int], from_: int) -> None:
    profile, array = booked(bookings)
    _, span, vms = wanted
    assert profile.earliest(from_, span, vms) == array.earliest(from_, span, vms)


@given(st.lists(windows, max_size=12), windows, st.integers(0, END))
def test_an_earlier_start_is_what_the_holder_would_get_anew(
    bookings: list[tuple[int, int, int]], wanted: tuple[int, int, int], from_: int
) -> None:
    """Whoever gives its booking back and asks again gets what `earlier` says at once."""
    profile, array = booked(bookings)
    _, span, vms = wanted
    held = array.earliest(from_, span, vms)
    # Somebody who stood in the way goes; the holder may now move.
    for start, length, size in bookings[::2]:
        profile.give(start, start + length, size)
        array.take(start, start + length, -size)
    fresh = array.earliest(from_, span, vms)
    profile.take(held, held + span, vms)
    assert profile.earlier(from_, span, vms, held, 2 * END) == fresh


@given(st.lists(windows, max_size=12), st.integers(0, END))
def test_trimming_forgets_only_the_past(bookings: list[tuple[int, int, int]], now: int) -> None:
    profile, array = booked(bookings)
    profile.trim(now)
    assert profile.times[0] <= now
    assert [profile.free_at(second) for second in range(now, END)] == array.free[now:END]


@given(st.lists(windows, max_size=12))
def test_giving_everything_back_leaves_one_step(bookings: list[tuple[int, int, int]]) -> None:
    profile, _ = booked(bookings)
    for start, span, vms in bookings:
        profile.give(start, start + span, vms)
    assert (profile.times, profile.free) == ([0], [SLOTS])


@given(st.lists(windows, max_size=12))
def test_neighbouring_steps_differ(bookings: list[tuple[int, int, int]]) -> None:
    profile, _ = booked(bookings)
    assert all(a != b for a, b in zip(profile.free, profile.free[1:], strict=False))


def test_a_copy_goes_its_own_way() -> None:
    profile = Profile(SLOTS)
    twin = profile.copy()
    twin.take(0, 5, 3)
    assert profile.free_at(2) == SLOTS
    assert twin.free_at(2) == SLOTS - 3


@given(st.lists(windows, max_size=12), st.integers(0, END), st.integers(1, END))
def test_the_minima_from_one_start_are_the_lowest_of_each_window(
    bookings: list[tuple[int, int, int]], start: int, span: int
) -> None:
    profile, array = booked(bookings)
    assert profile.minima_from(start).until(start + span) == min(array.free[start : start + span])


@given(st.sets(st.integers(0, 200), max_size=3))
def test_the_first_and_the_last_time_that_is_overbooked_are_found_among_many_steps(overbooked: set[int]) -> None:
    profile = Profile(SLOTS)
    for second in range(0, 201, 2):
        profile.take(second, second + 1, 1)  # each second is a step
    for second in overbooked:
        profile.take(second, second + 1, SLOTS + 1)
    assert profile.first_overbooked_ms() == min(overbooked, default=NEVER_MS)
    assert profile.last_overbooked_ms() == max((second + 1 for second in overbooked), default=-1)


@given(st.lists(windows, max_size=12), st.lists(windows, max_size=12))
def test_giving_all_back_at_once_is_giving_each_back(
    bookings: list[tuple[int, int, int]], given_back: list[tuple[int, int, int]]
) -> None:
    one_by_one, at_once = booked(bookings)[0], booked(bookings)[0]
    for start, span, vms in given_back:
        one_by_one.give(start, start + span, vms)
    at_once.give_all([(start, start + span, vms) for start, span, vms in given_back])
    for profile in (one_by_one, at_once):
        profile.take(3, 5, 1)  # as well as any other
    assert (at_once.times, at_once.free) == (one_by_one.times, one_by_one.free)
    assert (at_once.was_freed, at_once.freed_until_ms) == (one_by_one.was_freed, one_by_one.freed_until_ms)
