"""An account gives the use between any two moments, to the unit-millisecond."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.sharing.ledger import Account, common_grid_ms

CHANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=30)


def by_counting(changes: list[tuple[int, int]], from_ms: int, to_ms: int) -> int:
    """Add up the level of every single millisecond."""
    every_ms = range(from_ms, to_ms)
    return sum(max((held for at_ms, held in changes if at_ms <= ms), default=0) for ms in every_ms)


def steps(changes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Turn (gap, more) into (moment, level from then on): levels only rise, the last is the most."""
    at_ms = level = 0
    steps = []
    for gap_ms, more in changes:
        at_ms, level = at_ms + gap_ms, level + more
        steps.append((at_ms, level))
    return steps


def account_of(changes: list[tuple[int, int]]) -> Account:
    account, before = Account(), 0
    for at_ms, level in changes:
        account.change(level - before, at_ms)
        before = level
    return account


class TestUse:
    def test_three_units_for_two_seconds(self) -> None:
        account = Account()
        account.change(3, 1_000)
        account.change(-3, 3_000)
        assert account.used(0, 10_000) == 6_000
        assert account.used(1_500, 2_000) == 1_500
        assert account.level == 0

    def test_what_is_held_now_goes_on_in_forecasts(self) -> None:
        account = Account()
        account.change(2, 0)
        assert account.used(0, 5_000) == 10_000

    @given(CHANGES, st.integers(0, 300), st.integers(0, 300))
    def test_it_is_the_sum_over_every_millisecond(
        self, changes: list[tuple[int, int]], one_ms: int, other_ms: int
    ) -> None:
        from_ms, to_ms = sorted((one_ms, other_ms))
        held = steps(changes)
        assert account_of(held).used(from_ms, to_ms) == by_counting(held, from_ms, to_ms)


class TestThinning:
    @given(CHANGES, st.integers(1, 25), st.integers(0, 12), st.integers(0, 12))
    def test_use_between_bounds_of_windows_stays_exact(
        self, changes: list[tuple[int, int]], grid_ms: int, one: int, other: int
    ) -> None:
        held = steps(changes)
        account = account_of(held)
        account.thin(0, grid_ms)
        from_ms, to_ms = (grid_ms * bound for bound in sorted((one, other)))
        assert account.used(from_ms, to_ms) == by_counting(held, from_ms, to_ms)
        assert account.level == (held[-1][1] if held else 0)

    @given(CHANGES, st.integers(1, 25), st.integers(0, 200))
    def test_what_is_forgotten_changes_nothing_of_what_came_after(
        self, changes: list[tuple[int, int]], grid_ms: int, forget_ms: int
    ) -> None:
        held = steps(changes)
        account = account_of(held)
        account.thin(forget_ms, grid_ms)
        from_ms = -(-forget_ms // grid_ms) * grid_ms
        assert account.used(from_ms, from_ms + 300) == by_counting(held, from_ms, from_ms + 300)

    def test_a_long_account_becomes_short(self) -> None:
        account = Account()
        for now_ms in range(10_000):
            account.change(1 if now_ms % 2 == 0 else -1, now_ms)
        assert account.is_long
        account.thin(0, 1_000)
        assert not account.is_long
        assert account.used(2_000, 4_000) == 1_000


def test_the_grid_has_the_bounds_of_all_windows() -> None:
    assert common_grid_ms([1_200_000, 300_000]) == 300_000
    assert common_grid_ms([]) == 60_000
