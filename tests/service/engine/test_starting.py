"""What a live gateway says of leases whose machines take time, or never come, against what machines did."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.gateway.random_worlds import QUICK, REFERENCE_MIPS, SLOTS, SPEEDS, three_sites, to_the_first
from tests.gateway.turbulence import Turmoil, turmoils
from tests.searching import examples
from tests.service.engine.examples import S, end, guest, journal, lease, local, state, submitted, two_sites
from tests.service.engine.live_worlds import play_live
from tests.service.stores import store_at

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.settings import SiteSettings
from leasehold.model.agreement import CPUS
from leasehold.model.event import LendingChanged
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType
from leasehold.routing.registry import routing_policy
from leasehold.service.api.views import show_lease
from leasehold.service.commands import Cancel, Extend, MachinesAnswer, MachinesSilent
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.protocol import Phase, Problem, Verb
from leasehold.service.engine.orders import MOST_ATTEMPTS
from leasehold.service.engine.timers import START_WITHIN_MS
from leasehold.service.store.filters import EVERYTHING, UsageFilter
from leasehold.service.store.store import Store
from leasehold.sharing.enforcement import Sharing
from leasehold.sharing.parties import Provider
from leasehold.testing.live import BEGIN_MS, Live
from leasehold.testing.worlds import live_site

NUMBERS = count()


def accounting(*sites: SiteSettings) -> Sharing:
    """What is used of these sites is accounted for, as in a gateway that is served."""
    return Sharing([Provider(site.name, {CPUS: site.slots}) for site in sites])


def gateway_of_two() -> Gateway:
    sites = [live_site(name, 4, overhead=QUICK) for name in "ab"]
    return Gateway(sites, Routing(to_the_first()), sharing=accounting(*sites))


@pytest.fixture
def live(store: Store) -> Live:
    """Two sites whose machines start at once."""
    return two_sites(store, make_gateway=gateway_of_two)


@pytest.fixture
def slow(live: Live) -> Live:
    """Two sites whose machines take 20 s to boot."""
    for site in live.sites.values():
        site.machines = EmulatedMachines(Hardware(4, 1, 1, QUICK, boot_ms=20 * S), FaultInjector(Faults()))
    return live


def used_s(live: Live) -> list[tuple[int, str, float]]:
    """Who used machines of which site, and for how long, of all that is over."""
    which = UsageFilter(EVERYTHING, 0, 1 << 60)
    return [(row.lease_id, row.site, (row.end_ms - row.begin_ms) / S) for row in live.store.usage(which)]


class TestBooting:
    def test_a_command_that_is_shorter_than_asked_for_completes(self, slow: Live) -> None:
        submitted(slow, guest(1, 30, needed_s=15))
        slow.pass_time(19 * S)
        assert state(slow, 1) == "starting"
        slow.pass_time(600 * S)
        assert end(slow, 1) == ("completed", "completed")
        assert lease(slow, 1).metadata.end_ms == BEGIN_MS + 35 * S

    def test_machines_alone_are_there_for_all_of_the_time(self, slow: Live) -> None:
        submitted(slow, guest(1, 10))
        slow.pass_time(29 * S)
        assert state(slow, 1) == "running"
        slow.pass_time(1 * S)
        assert end(slow, 1) == ("completed", "completed")

    def test_its_duration_by_the_clock_is_known_while_it_has_machines_for_all_of_it(self, store: Store) -> None:
        """SiteSettings a is three times as fast as the speed that durations refer to."""
        sites = [live_site("a", 4, speed_mips=3, overhead=QUICK)]
        machines = EmulatedMachines(Hardware(4, 3, 1, QUICK, boot_ms=20 * S), FaultInjector(Faults()))
        live = Live(store, lambda: Gateway(sites, Routing(to_the_first()), 1), {"a": machines})
        submitted(live, guest(4, 60))
        assert show_lease(lease(live, 1)).walltime_s == 20
        live.pass_time(25 * S)
        shown = show_lease(lease(live, 1))
        assert (shown.state, shown.duration_s, shown.walltime_s) == ("running", 60, 20)
        live.do(Extend(1, 30 * S))
        shown = show_lease(lease(live, 1))
        assert (shown.duration_s, shown.walltime_s) == (90, 30)
        submitted(live, local(1, 30))
        live.pass_time(10 * S)
        assert [show_lease(lease(live, n)).walltime_s for n in (1, 2)] == [None, 10]

    def test_only_that_is_billed(self, slow: Live) -> None:
        submitted(slow, guest(2, 10), local(1, 30))
        slow.pass_time(600 * S)
        assert sorted(used_s(slow)) == [(1, "a", 10), (2, "a", 30)]

    def test_who_moves_on_in_that_very_instant_started_where_it_was(self, slow: Live) -> None:
        submitted(slow, guest(4, 60, LeaseType.MIGRATABLE))
        slow.at(BEGIN_MS + 20 * S, local(1, 5))
        told = [(line.what, line.site) for line in journal(slow, 1)]
        assert [line for line in told if line[0] in ("started", "migrating")] == [
            ("started", "a"),
            ("migrating", "b"),
        ]

    def test_who_gives_way_when_it_is_heard_that_its_time_was_over_has_hardly_any_work_left(self, slow: Live) -> None:
        submitted(slow, guest(4, 10, LeaseType.MIGRATABLE))
        slow.sites["a"].is_cut = True
        slow.pass_time(60 * S)
        slow.sites["a"].is_cut = False
        slow.at(BEGIN_MS + 60 * S, local(1, 5))
        assert lease(slow, 1).lease.work_left > 0
        slow.pass_time(600 * S)
        assert end(slow, 1)[0] == "completed"

    def test_who_is_cancelled_before_costs_nothing(self, slow: Live) -> None:
        submitted(slow, guest(2, 10))
        slow.pass_time(5 * S)
        slow.do(Cancel(1))
        slow.pass_time(600 * S)
        assert used_s(slow) == []

    def test_what_booting_took_is_planned_with_next_time(self, slow: Live) -> None:
        submitted(slow, local(4, 10))
        slow.pass_time(100 * S)
        submitted(slow, local(4, 10), local(4, 10))
        assert lease(slow, 3).lease.reserved_ms - slow.now_ms == 30 * S

    def test_a_restart_changes_none_of_it(self, slow: Live) -> None:
        submitted(slow, guest(1, 30, needed_s=15))
        slow.pass_time(5 * S)
        slow.restart()
        slow.look()
        assert state(slow, 1) == "starting"
        slow.pass_time(600 * S)
        assert (end(slow, 1), used_s(slow)) == (("completed", "completed"), [(1, "a", 15)])

    def test_who_had_its_time_while_nobody_was_there_is_done(self, slow: Live) -> None:
        submitted(slow, guest(1, 30))
        slow.now_ms += 300 * S  # nobody is there
        slow.restart()
        slow.look()
        slow.pass_time(1)
        assert lease(slow, 1).lease.first_start_ms == BEGIN_MS + 20 * S
        assert end(slow, 1) == ("completed", "completed")


class TestGivingWay:
    def test_it_says_why_even_after_its_return_was_planned_anew(self, slow: Live) -> None:
        submitted(slow, guest(4, 60))
        slow.pass_time(5 * S)
        submitted(slow, local(2, 365 * 24 * 3600))
        slow.pass_time(30 * S)
        assert state(slow, 2) == "running"
        assert "delayed-by-slow-start" in [line.reason for line in journal(slow, 1)]
        for _ in range(2):
            assert (lease(slow, 1).metadata.reason, lease(slow, 1).lease.preemptions) == (
                "local-needs-room",
                1,
            )
            slow.restart()

    def test_who_goes_on_says_so(self, slow: Live) -> None:
        submitted(slow, guest(4, 60))
        slow.pass_time(5 * S)
        submitted(slow, local(2, 30))
        slow.pass_time(55 * S)
        assert (state(slow, 1), lease(slow, 1).metadata.reason) == ("running", "reserved-start")


class TestSilent:
    def test_who_was_told_to_start_goes_elsewhere_and_the_log_says_why(self, live: Live) -> None:
        live.sites["a"].is_cut = True
        submitted(live, guest(2, 60))
        live.pass_time(90 * S)
        assert (lease(live, 1).lease.site, state(live, 1)) == ("a", "starting")
        live.do(MachinesSilent("a", "cut off"))
        assert (lease(live, 1).lease.site, state(live, 1)) == ("b", "running")
        [line] = [line for line in journal(live, 1) if line.reason == "site-unreachable"]
        assert line.detail == '{"cause": "the machines of a do not answer: cut off"}'
        live.pass_time(600 * S)
        assert (end(live, 1), used_s(live)) == (("completed", "completed"), [(1, "b", 60)])

    def test_machines_that_come_up_there_later_are_stopped(self, live: Live) -> None:
        live.sites["a"].is_cut = True
        submitted(live, guest(2, 600))
        live.pass_time(1 * S)
        live.do(MachinesSilent("a", "cut off"))
        live.sites["a"].is_cut = False
        live.do(MachinesAnswer("a"))
        live.pass_time(120 * S)
        live.look()
        assert live.sites["a"].machines.observe() == []
        assert (lease(live, 1).lease.site, state(live, 1)) == ("b", "running")

    def test_it_is_silent_still_after_a_store_that_failed(self, live: Live) -> None:
        live.do(MachinesSilent("a", "cut off"))
        live.engine._is_stale = True
        submitted(live, guest(2, 60))
        assert lease(live, 1).lease.site == "b"

    def test_a_local_lease_is_neither_running_nor_billed(self, live: Live) -> None:
        live.sites["a"].is_cut = True
        live.do(MachinesSilent("a", "cut off"))
        submitted(live, local(2, 60))
        live.pass_time(24 * 3600 * S)
        assert (state(live, 1), used_s(live)) == ("starting", [])
        live.sites["a"].is_cut = False
        live.do(MachinesAnswer("a"))
        live.pass_time(3600 * S)
        assert (end(live, 1), used_s(live)) == (("completed", "completed"), [(1, "a", 60)])


class TestNever:
    @pytest.mark.parametrize("within_ms", [START_WITHIN_MS, 30 * S])
    def test_who_is_not_seen_for_too_long_goes_elsewhere(self, store: Store, within_ms: int) -> None:
        live = two_sites(store, make_gateway=gateway_of_two, start_within_ms=within_ms)
        live.sites["a"].machines = EmulatedMachines(
            Hardware(4, 1, 1, QUICK, boot_ms=10 * START_WITHIN_MS), FaultInjector(Faults())
        )
        submitted(live, guest(1, 60))
        live.pass_time(within_ms - 1)
        assert (lease(live, 1).lease.site, state(live, 1)) == ("a", "starting")
        live.pass_time(1)
        assert (lease(live, 1).lease.site, state(live, 1)) == ("b", "running")
        live.pass_time(60 * S)
        assert (end(live, 1), used_s(live)) == (("completed", "completed"), [(1, "b", 60)])
        live.look()
        assert live.sites["a"].machines.observe() == []

    def test_failing_orders_are_in_the_log_at_first_and_at_last(self, live: Live) -> None:
        live.sites["a"].machines.injector.fail_next(Problem("no disk"), times=1_000, verb=Verb.START)
        with capture_logs() as lines:
            submitted(live, guest(1, 60))
            live.pass_time(600 * S)
        told = [(one["event"], one["site"], one["problem"]) for one in lines if one["log_level"] == "warning"]
        assert told == [
            ("order failed, will be sent again", "a", "no disk"),
            ("order given up", "a", "no disk"),
        ]
        assert len(told) < MOST_ATTEMPTS


@st.composite
def boots(draw: st.DrawFn) -> dict[str, Any]:
    """How the machines of each site are: how long they boot, and what goes wrong."""
    return {
        name: (
            draw(st.sampled_from([0, 1, 700, 3_000, 20_000])),
            Faults(
                fail_orders=draw(st.sampled_from([0.0, 0.3])),
                slow_factor=draw(st.sampled_from([1.0, 2.5])),
                observations_late_ms=draw(st.sampled_from([0, 900])),
                seed=draw(st.integers(0, 9)),
            ),
        )
        for name in SLOTS
    }


@given(turmoil=turmoils(), machines=boots(), depth=st.sampled_from(["conservative", "easy"]))
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
def test_nobody_is_said_to_run_whose_machines_do_not(
    tmp_path: Path, turmoil: Turmoil, machines: dict[str, Any], depth: str
) -> None:
    made = {
        name: EmulatedMachines(
            Hardware(SLOTS[name], SPEEDS[name], REFERENCE_MIPS, QUICK, boot_ms=boot_ms), FaultInjector(faults, name)
        )
        for name, (boot_ms, faults) in machines.items()
    }
    with store_at(tmp_path / f"{next(NUMBERS)}.db") as store:

        def make() -> Gateway:
            sites = three_sites(depth, confirms_starts=True)
            policy = routing_policy("most-free")(Random(0))
            return Gateway(sites, Routing(policy), REFERENCE_MIPS, accounting(*sites))

        live = Live(store, make, made)
        ran: set[tuple[int, int, str]] = set()

        def watch(live: Live) -> None:
            live.engine.check()
            for name, site in live.sites.items():
                ran.update(
                    (seen.lease_id, seen.incarnation, name)
                    for seen in site.machines.observe()
                    if seen.phase in (Phase.RUNNING, Phase.ENDED)
                )
            for one in live.gateway.leases.values():
                if one.state is LeaseState.RUNNING:
                    assert (one.id, one.incarnation, one.site) in ran

        play_live(turmoil.of_known_leases().only(LendingChanged), live, watch)
        which = UsageFilter(EVERYTHING, 0, 1 << 60)
        billed = {(row.lease_id, row.site) for row in store.usage(which)}
        assert billed <= {(lease_id, site) for lease_id, _, site in ran}
