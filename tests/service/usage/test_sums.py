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
from leasehold.service.accounting import MOST_WINDOWS, Use, account, month_of, read_month, together, windows
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
