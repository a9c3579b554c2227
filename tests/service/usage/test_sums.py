"""What was used, summed by hand, and against an account of every single millisecond."""

from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.agreement import CPUS
from leasehold.model.errors import InvalidField
from leasehold.model.event import Submitted
from leasehold.model.request import LeaseType, Request
from leasehold.protocol.usage import By
from leasehold.routing.registry import routing_policy
from leasehold.service import accounting
from leasehold.service.accounting import (
    MOST_WINDOWS,
    Pair,
    Use,
    account,
    balances,
    month_of,
    read_month,
    together,
    windows,
)
from leasehold.service.engine.usage import GoingOn, going_on
from leasehold.service.store.filters import EVERYTHING, UsageFilter, Visible
from leasehold.service.store.rows import UsageRow
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider
from leasehold.testing.rows import usage_row
from leasehold.testing.worlds import site

DAY = 86_400_000


def unix_ms(*date: int) -> int:
    return round(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


class TestWindows:
    def test_in_all_it_is_one(self) -> None:
        assert windows(5, 7 * DAY + 3, By.TOTAL) == [(5, 7 * DAY + 3)]

    def test_days_begin_at_midnight_and_the_first_and_the_last_may_be_shorter(self) -> None:
        assert windows(5, 2 * DAY + 3, By.DAY) == [(5, DAY), (DAY, 2 * DAY), (2 * DAY, 2 * DAY + 3)]
        assert windows(DAY, 2 * DAY, By.DAY) == [(DAY, 2 * DAY)]

    def test_months_are_those_of_the_calendar(self) -> None:
        months = windows(unix_ms(2026, 1, 1), unix_ms(2026, 4, 1), By.MONTH)
        assert [(end_ms - begin_ms) // DAY for begin_ms, end_ms in months] == [31, 28, 31]
        assert month_of(unix_ms(2024, 2, 29, 23)) == (unix_ms(2024, 2, 1), unix_ms(2024, 3, 1))
        assert read_month("2026-12") == (unix_ms(2026, 12, 1), unix_ms(2027, 1, 1))

    def test_too_many_are_refused(self) -> None:
        with pytest.raises(InvalidField, match=f"by: got 'day', expected .*at most {MOST_WINDOWS} windows"):
            windows(0, (MOST_WINDOWS + 2) * DAY, By.DAY)

    @pytest.mark.parametrize("text", ["2026-13", "2026", "0000-01", "9999-12", "October"])
    def test_what_is_no_month(self, text: str) -> None:
        with pytest.raises(InvalidField, match=r"month: got .*, expected a year and a month, such as 2026-10"):
            read_month(text)


class TestByHand:
    def test_by_consumer_and_domain(self) -> None:
        rows = [
            usage_row(1, 0, 10, vms=2, path="atlas/prod/x", site="a", domain="ours"),
            usage_row(2, 5, 20, vms=3, path="atlas/y", site="b", domain="ours"),
            usage_row(3, 0, 4, vms=1, path="atlas/y", site="c"),
            usage_row(4, 0, 4, vms=8, path="owner", site="c", is_local=1),
        ]
        assert account(rows, [(0, 20)]) == [
            Use((0, 20), "atlas", "c", is_local=False, vm_ms=4, leases=1, peak_vms=1),
            Use((0, 20), "atlas", "ours", is_local=False, vm_ms=65, leases=2, peak_vms=5),
            Use((0, 20), "owner", "c", is_local=True, vm_ms=32, leases=1, peak_vms=8),
        ]
        assert {use.consumer for use in account(rows, [(0, 20)], depth=2)} == {
            "atlas/prod",
            "atlas/y",
            "owner",
        }

    def test_what_lies_in_two_windows_is_parted(self) -> None:
        uses = account([usage_row(1, 5, 25, vms=3)], [(0, 10), (10, 20), (20, 30)])
        assert [use.vm_ms for use in uses] == [15, 30, 15]

    def test_who_leaves_makes_room_for_who_comes_at_that_moment(self) -> None:
        rows = [usage_row(1, 0, 10, vms=3), usage_row(2, 10, 20, vms=2)]
        assert account(rows, [(0, 20)])[0].peak_vms == 3

    def test_a_lease_that_was_suspended_is_one_lease(self) -> None:
        rows = [usage_row(1, 0, 10), usage_row(1, 30, 40)]
        assert account(rows, [(0, 50)])[0].leases == 1


class TestBalances:
    """Who owes whom; consumers stand for the providers whose own users they are."""

    def test_a_pair_has_what_went_both_ways_and_the_larger_is_owed(self) -> None:
        used = {("a", "own-a", True): [9], ("b", "own-b", True): [9]}
        used |= {("a", "own-b", False): [5, 5], ("b", "own-a", False): [4], ("b", "physics", False): [3]}
        assert balances(used) == [Pair("a", "b", 10, 4), Pair("b", "physics", 3, 0)]

    def test_a_consumer_with_the_name_of_a_provider_is_it_and_owes_itself_nothing(self) -> None:
        used = {("a", "a", False): [7], ("a", "b", False): [2], ("b", "a", False): [2]}
        assert balances(used) == [Pair("a", "b", 2, 2)]

    def test_an_own_user_of_two_providers_stands_for_none(self) -> None:
        used = {("a", "x", True): [1], ("b", "x", True): [1], ("c", "x", False): [6]}
        assert balances(used) == [Pair("c", "x", 6, 0)]

    @given(
        st.dictionaries(
            st.tuples(st.sampled_from("abc"), st.sampled_from("abxy"), st.booleans()),
            st.lists(st.integers(0, 9), min_size=2, max_size=2),
            max_size=9,
        )
    )
    def test_each_pair_is_named_once_and_all_that_was_lent_is_in_one(self, used: accounting.StepUse) -> None:
        pairs = balances(used)
        assert len({frozenset((one.creditor, one.debtor)) for one in pairs}) == len(pairs)
        assert all(one.lent_vm_ms >= one.returned_vm_ms for one in pairs)
        homes = {
            name: {name} & {p for p, _, _ in used} or {p for p, c, is_local in used if c == name and is_local}
            for _, name, _ in used
        }
        at_home = sum(sum(by_step) for (p, c, is_local), by_step in used.items() if not is_local and homes[c] == {p})
        lent = sum(sum(by_step) for (_, _, is_local), by_step in used.items() if not is_local)
        assert sum(one.lent_vm_ms + one.returned_vm_ms for one in pairs) == lent - at_home


class TestTogether:
    def test_what_ended_while_one_looked_counts_once(self) -> None:
        finished, still = [usage_row(1, 0, 30)], [usage_row(1, 0, 28), usage_row(2, 5, 28)]
        assert together(finished, still) == [finished[0], still[1]]


class TestGoingOn:
    """What is held now; rows are made of what is asked for and may be seen, and of nothing else."""

    def look(self) -> GoingOn:
        places = [Provider("a", {CPUS: 6}, "ours"), Provider("b", {CPUS: 4})]
        sites = [site("a", 6), site("b", 4)]
        sharing = Sharing(places, SharingSettings(), [])
        gateway = Gateway(sites, Routing(routing_policy("rr")(Random(0))), sharing=sharing)
        for number, (consumer, group) in enumerate([("physics", "atlas"), ("climate", ""), ("physics", "")]):
            asked = Request(number, LeaseType.SUSPENDABLE, 1, 9_000, 5, 5, consumer=consumer, group=group)
            gateway.handle([Submitted(asked)], 5)
        return going_on(gateway, 28)

    def test_it_is_as_if_it_ended_now(self) -> None:
        rows = self.look().rows(UsageFilter(EVERYTHING, 0, 100))
        assert [(row.lease_id, row.begin_ms, row.end_ms) for row in rows] == [
            (0, 5, 28),
            (1, 5, 28),
            (2, 5, 28),
        ]
        assert {(row.site, row.domain) for row in rows} == {("a", "ours"), ("b", "")}

    @pytest.mark.parametrize(
        ("which", "expected"),
        [
            (UsageFilter(Visible(consumer="physics"), 0, 100), [0, 2]),
            (UsageFilter(Visible(groups=("atlas",)), 0, 100), [0]),
            (UsageFilter(Visible(), 0, 100), []),
            (UsageFilter(EVERYTHING, 0, 100, consumer="atlas"), [0]),
            (UsageFilter(EVERYTHING, 0, 5), []),
            (UsageFilter(EVERYTHING, 28, 100), []),
        ],
    )
    def test_only_what_is_asked_for_and_may_be_seen(self, which: UsageFilter, expected: list[int]) -> None:
        assert [row.lease_id for row in self.look().rows(which)] == expected


def test_use_in_too_many_windows_is_refused_before_it_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "MOST_PARTS", 4)
    rows = [usage_row(number, 0, 20) for number in range(2)]
    parts = [(0, 10), (10, 20)]
    assert len(account(rows, parts)) == 2
    with pytest.raises(InvalidField, match="longer windows, or less time"):
        account([*rows, usage_row(2, 0, 5)], parts)


spans = st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 4), st.sampled_from(["x", "y"]))


@given(spans=st.lists(spans, max_size=8), cuts=st.sets(st.integers(1, 79), max_size=4))
def test_sums_and_peaks_are_those_of_every_single_moment(
    spans: list[tuple[int, int, int, str]], cuts: set[int]
) -> None:
    rows: list[UsageRow] = [
        usage_row(number, begin, begin + length, vms=vms, path=path)
        for number, (begin, length, vms, path) in enumerate(spans)
    ]
    bounds = [0, *sorted(cuts), 80]
    parts = list(pairwise(bounds))
    found = {(use.window, use.consumer): (use.vm_ms, use.peak_vms) for use in account(rows, parts)}
    for part in parts:
        for path in "xy":
            levels = [
                sum(row.vms for row in rows if row.path == path and row.begin_ms <= at < row.end_ms)
                for at in range(*part)
            ]
            assert found.get((part, path), (0, 0)) == (sum(levels), max(levels, default=0))
