"""Which orders emulated machines follow, which they refuse and why; and what holds whatever they are told."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.programs import Program, programs
from tests.service.drivers.sites import REFERENCE_MIPS, changes, machines, seen, told

from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.record import Action, AuditLine, brought_up_twice
from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, Verb
from leasehold.testing.driver_rig import order
from leasehold.testing.drivers import UP


def problem(site: EmulatedMachines, now_ms: int, told_now: Order) -> Problem:
    """Give an order that cannot be taken on."""
    problems = site.carry_out([told_now], now_ms)
    assert list(problems) == [told_now.id]
    return problems[told_now.id]


# --- room -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.START, Verb.RECEIVE])
def test_without_room_the_numbers_are_named_and_telling_it_again_may_help(verb: Verb) -> None:
    site = machines(slots=8)
    told(site, 0, order(Verb.START, 1, vms=6))
    no_room = Problem("no room for 3 VMs: 6 of 8 are in use", again=True, full=True)
    assert problem(site, 0, order(verb, 2, vms=3)) == no_room
    assert seen(site, 2) is None


def test_what_is_wider_than_the_site_is_refused_for_good() -> None:
    assert not problem(machines(slots=2), 0, order(Verb.START, vms=3)).again


def test_resuming_needs_room_again() -> None:
    site = machines(slots=4)
    told(site, 0, order(Verb.START, 1, vms=3), order(Verb.SUSPEND, 1), order(Verb.START, 2, vms=2))
    assert problem(site, 99, order(Verb.RESUME, 1, 2, vms=3)).text == "no room for 3 VMs: 2 of 4 are in use"
    told(site, 99, order(Verb.STOP, 2), order(Verb.RESUME, 1, 2, vms=3))


def test_room_is_free_from_the_moment_of_the_order_to_save() -> None:
    site = machines(slots=2)
    told(site, 0, order(Verb.START, 1, vms=2))
    told(site, 9, order(Verb.SUSPEND, 1), order(Verb.START, 2, vms=2))
    assert changes(site, 9)[-2:] == [(9, 1, Phase.SAVING), (9, 2, Phase.RUNNING)]


@pytest.mark.parametrize("command", [("sleep", "0.001"), ("false",)])
def test_what_is_over_holds_no_room(command: tuple[str, ...]) -> None:
    site = machines(slots=1)
    told(site, 0, order(Verb.START, 1, command=command))
    told(site, 1, order(Verb.START, 2))
    assert [one.lease_id for one in site.observe()] == [1, 2]


# --- too early, too late ----------------------------------------------------------------------------------


def test_an_order_that_comes_too_early_may_be_told_again() -> None:
    site = machines()
    early = Problem("incarnation 1 of lease 1 is not here yet", again=True)
    assert problem(site, 0, order(Verb.SUSPEND)) == early
    told(site, 0, order(Verb.START), order(Verb.SUSPEND))
    saving = Problem("the memory of lease 1 is not saved: it is saving", again=True)
    assert problem(site, 0, order(Verb.RESUME, 1, 2)) == saving


def test_nothing_starts_where_an_earlier_incarnation_has_not_been_stopped() -> None:
    site = machines()
    told(site, 0, order(Verb.START))
    assert problem(site, 0, order(Verb.START, 1, 2)) == Problem("incarnation 1 of lease 1 is running here")
    assert problem(site, 0, order(Verb.RECEIVE, 1, 2)).again


def test_without_memory_nothing_is_ever_resumed() -> None:
    site = machines()
    nothing = Problem("no memory of lease 1 is saved here", again=False)
    assert problem(site, 0, order(Verb.RESUME)) == nothing


@pytest.mark.parametrize("command", [("true",), ("false",)])
def test_suspending_what_is_over_changes_nothing(command: tuple[str, ...]) -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=command))
    site.pass_time(0)
    before = seen(site)
    told(site, 5, order(Verb.SUSPEND))
    assert seen(site) == before


def test_what_had_ended_when_it_was_to_be_suspended_has_ended_when_it_is_resumed() -> None:
    site = machines()
    told(site, 0, order(Verb.START, command=("true",)), order(Verb.SUSPEND), order(Verb.RESUME, 1, 2))
    assert [(one.incarnation, one.phase) for one in site.observe()] == [(2, Phase.ENDED)]


def test_an_order_that_is_out_of_date_does_nothing_and_what_was_stopped_is_refused_for_good() -> None:
    site = machines(slots=1)
    told(site, 0, order(Verb.START, 1), order(Verb.STOP, 1), order(Verb.START, 2))
    told(site, 0, order(Verb.SUSPEND, 1), order(Verb.STOP, 1), order(Verb.START, 2))
    stopped = Problem("incarnation 1 of lease 1 was stopped here before", again=False)
    assert problem(site, 0, order(Verb.START, 1)) == stopped
    assert [one.lease_id for one in site.observe()] == [2]


@pytest.mark.parametrize(
    ("able", "refused"),
    [
        (Capabilities(suspend=False), order(Verb.SUSPEND)),
        (Capabilities(suspend=False), order(Verb.RESUME, 1, 2)),
        (Capabilities(migrate=False), order(Verb.SEND)),
        (Capabilities(migrate=False), order(Verb.RECEIVE, 2)),
        (Capabilities(commands=False), order(Verb.START, 2, command=("true",))),
    ],
)
def test_what_machines_cannot_do_is_refused_for_good(able: Capabilities, refused: Order) -> None:
    site = machines(capabilities=able)
    told(site, 0, order(Verb.START))
    before = seen(site)
    assert not problem(site, 0, refused).again
    assert site.observe() == [before]


# --- whatever they are told -------------------------------------------------------------------------------


@given(programs())
def test_no_incarnation_of_a_lease_comes_up_twice(program: Program) -> None:
    site, now_ms = machines(), 0
    for gap_ms, batch in [*program, *program]:
        now_ms += gap_ms
        site.carry_out(batch, now_ms)
    site.pass_time(now_ms + 999)
    audit = site.take_unwritten().audit
    assert brought_up_twice(audit) == []
    ran = Counter((line.lease_id, line.incarnation) for line in audit if line.action is Action.RUN)
    assert set(ran.values()) <= {1}


@given(programs())
def test_the_room_is_never_exceeded(program: Program) -> None:
    site, now_ms = machines(slots=4), 0
    for gap_ms, batch in program:
        now_ms += gap_ms
        for one in batch:
            site.carry_out([one], now_ms)
            instances = [site.current(up.lease_id) for up in site.observe() if up.phase in UP]
            assert sum(instance.vms for instance in instances if instance is not None) <= 4


class Traveller:
    """One lease with 0.1 s of work, at two sites of different speed, and the work that it must have done."""

    def __init__(self, speeds_mips: list[int]) -> None:
        self.sites = [machines(speed_mips=speed_mips) for speed_mips in speeds_mips]
        self.at, self.incarnation, self.work_done = 0, 1, 0
        told(self.sites[0], 0, order(Verb.START, command=("sleep", "0.1")))

    def disturbed(self, verb: Verb, now_ms: int) -> None:
        """Suspended or sent to the other site, where it is up; resumed where it is saved."""
        site = self.sites[self.at]
        site.pass_time(now_ms)
        here = seen(site)
        assert here is not None
        if here.phase is Phase.RUNNING:
            self.work_done += (now_ms - here.since_ms) * site.hardware.speed_mips
        if here.phase is Phase.SAVED:
            self.incarnation += 1
            told(site, now_ms, order(Verb.RESUME, 1, self.incarnation))
        elif here.phase in UP:
            told(site, now_ms, order(verb, 1, self.incarnation))
            if verb is Verb.SEND:
                self._arrive(now_ms)

    def _arrive(self, now_ms: int) -> None:
        self.at, self.incarnation = 1 - self.at, self.incarnation + 1
        come = order(Verb.RECEIVE, 1, self.incarnation, command=("sleep", "0.1"), work_done=self.work_done)
        told(self.sites[self.at], now_ms, come)

    def work(self) -> int:
        """How much work was done at both sites, to judge by their audits."""
        return sum(_ran_ms(site.take_unwritten().audit) * site.hardware.speed_mips for site in self.sites)


def _ran_ms(audit: list[AuditLine]) -> int:
    return sum(then.at_ms - line.at_ms for line, then in pairwise(audit) if line.action is Action.RUN)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from([Verb.SUSPEND, Verb.SEND])), max_size=12),
    st.lists(st.integers(200, 2000), min_size=2, max_size=2),
)
def test_work_is_kept_over_suspensions_and_moves(disturbances: list[tuple[int, Verb]], speeds_mips: list[int]) -> None:
    traveller, now_ms = Traveller(speeds_mips), 0
    for gap_ms, verb in disturbances:
        now_ms += gap_ms
        traveller.disturbed(verb, now_ms)
    here = seen(traveller.sites[traveller.at])
    if here is not None and here.phase in {Phase.SAVING, Phase.SAVED}:
        traveller.disturbed(Verb.RESUME, now_ms + 99)
    traveller.sites[traveller.at].pass_time(now_ms + 9_999)
    needed = 100 * REFERENCE_MIPS
    assert needed <= traveller.work() < needed + max(speeds_mips)
