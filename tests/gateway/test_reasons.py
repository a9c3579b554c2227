"""Why: every refusal, wait and preemption of a random world says so as data, and the accounts agree."""

from collections import Counter
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import (
    PREEMPTABLE,
    QUICK,
    SLOTS,
    Case,
    Chronicle,
    cases,
    three_sites,
    unfold,
)
from tests.searching import examples

from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.model.effect import Decision, MigrateLease, Preemption, ResumeLease, StartLease
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome, Reason, sentence
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import guest, local, play, site

NEVER_HERE = {
    Reason.WIDER_THAN_SITE,
    Reason.WIDER_THAN_ANY_SITE,
    Reason.DEADLINE_TOO_TIGHT,
    Reason.NO_ROOM_AT_READY_TIME,
    Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE,
    Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED,
    Reason.NON_PREEMPTABLE_TOO_LONG,
    Reason.LOCAL_QUEUE_CLOSED,
    Reason.POLICY_REFUSED,
}
NOT_NOW = {Reason.ROOM_IN_USE, Reason.BEHIND_OTHERS, Reason.NOT_READY_YET}
NOW = {Reason.ROOM_FREE, Reason.ROOM_MADE, Reason.RESERVED_START, Reason.BACKFILLED}
REASONS_OF = {
    Outcome.REFUSE: NEVER_HERE,
    Outcome.WAIT: NOT_NOW,
    Outcome.PREEMPT: {Reason.LOCAL_NEEDS_ROOM, Reason.RESERVATION_NEEDS_ROOM},
    Outcome.START: NOW,
    Outcome.DISPATCH: {Reason.ROUTED},
    Outcome.HOLD: {Reason.HELD_AT_GATEWAY},
    Outcome.MOVE: {Reason.LOCAL_PLAN_CHANGED, Reason.ROOM_FREE},
}
STATE_OF = {
    Reason.COMPLETED: LeaseState.COMPLETED,
    Reason.WALLTIME_REACHED: LeaseState.KILLED,
    Reason.TERMINATED: LeaseState.TERMINATED,
    Reason.DEADLINE_LOST: LeaseState.FAILED,
    Reason.CANCELLED_BY_USER: LeaseState.CANCELLED,
} | dict.fromkeys(NEVER_HERE, LeaseState.REFUSED)

worlds = st.fixed_dictionaries(
    {
        "victims": st.sampled_from(list(VICTIM_POLICIES)),
        "queues_locals": st.booleans(),
        "non_preemptable_share_vms": st.sampled_from([None, 2]),
    }
)


def test_the_four_verdicts_on_a_request_are_in_order() -> None:
    """Never < wait < preempt < fit."""
    assert list(Outcome)[:4] == [Outcome.REFUSE, Outcome.WAIT, Outcome.PREEMPT, Outcome.START]


def test_a_request_meets_its_verdicts_in_that_order_as_room_grows() -> None:
    """Three VMs asked beside a Non-preemptable guest of 2 s, and one that can be preempted."""

    def verdict(slots: int) -> Outcome:
        log = [guest(0, 1, 2, "non-preemptable"), guest(0, 2, 50), local(1, 3, 5)]
        effects = [effect for _, effect in play(log, [site("a", slots)]).effects]
        first = next(e for e in effects if isinstance(e, Decision) and e.lease.id == 3)
        return Outcome.PREEMPT if first.reason is Reason.ROOM_MADE else first.outcome

    assert [verdict(slots) for slots in (2, 3, 4, 5, 6)] == [
        Outcome.REFUSE,
        Outcome.WAIT,
        Outcome.PREEMPT,
        Outcome.PREEMPT,
        Outcome.START,
    ]


@pytest.mark.parametrize(
    ("taker", "when_s", "reason"),
    [
        ([local(10, 3, 40)], 10, Reason.LOCAL_NEEDS_ROOM),
        # Beside the local request nobody else has room, once two VMs are promised from 50 s on.
        (
            [guest(1, 2, 50, "non-preemptable", ready_s=50), local(10, 2, 100)],
            50,
            Reason.RESERVATION_NEEDS_ROOM,
        ),
    ],
    ids=["a local request", "a promise"],
)
def test_a_preemption_says_what_room_was_needed_for(taker: list[WorkloadJob], when_s: int, reason: Reason) -> None:
    history = play([guest(0, 2, 100), *taker], [site("a", 4)])
    ((now_s, made),) = history.decisions(Outcome.PREEMPT)
    assert (now_s, made.lease.id, made.reason) == (when_s, 1, reason)
    assert made.preemption is not None
    assert made.preemption.beneficiary == 2


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_for_people(reason: Reason) -> None:
    assert len(sentence(reason).split()) >= 3


@settings(max_examples=examples(100))
@given(case=cases(), own=worlds)
def test_every_decision_has_a_reason_of_its_kind_and_a_rule(case: Case, own: dict[str, Any]) -> None:
    for _, made in unfold(case, three_sites(**own), try_elsewhere=True).decisions():
        assert made.reason in REASONS_OF[made.outcome]
        assert made.rule
        assert (made.preemption is not None) == (made.outcome is Outcome.PREEMPT)


@settings(max_examples=examples(100))
@given(case=cases(), own=worlds)
def test_the_reason_why_a_lease_is_over_fits_its_state(case: Case, own: dict[str, Any]) -> None:
    chronicle = unfold(case, three_sites(**own), try_elsewhere=True)
    for number, (_, reason) in chronicle.ends().items():
        assert chronicle.leases[number].state is STATE_OF[reason]


@settings(max_examples=examples(100))
@given(case=cases(), own=worlds)
def test_who_is_refused_is_told_the_same_by_the_last_decision(case: Case, own: dict[str, Any]) -> None:
    chronicle = unfold(case, three_sites(**own), try_elsewhere=True)
    last = {made.lease.id: made for _, made in chronicle.decisions()}
    for number, (_, reason) in chronicle.ends().items():
        refused = chronicle.leases[number].state is LeaseState.REFUSED
        assert refused == (last[number].outcome is Outcome.REFUSE if number in last else False)
        assert not refused or last[number].reason is reason


@settings(max_examples=examples(100))
@given(case=cases())
def test_who_does_not_start_at_once_is_told_that_and_why(case: Case) -> None:
    chronicle = unfold(case, three_sites())
    first = {made.lease.id: (now_ms, made) for now_ms, made in reversed(chronicle.decisions(Outcome.WAIT))}
    for now_ms, made in chronicle.decisions(Outcome.START):
        came_ms = made.lease.request.submit_ms
        if made.lease.first_start_ms == now_ms > came_ms:
            told_ms, wait = first[made.lease.id]
            assert told_ms == came_ms
            is_ready = made.lease.request.ready_ms <= came_ms
            assert is_ready == (wait.reason in {Reason.ROOM_IN_USE, Reason.BEHIND_OTHERS})
            assert wait.planned_ms is not None


@pytest.mark.parametrize("outsider", [False, True], ids=["local", "guest"])
def test_three_ways_to_wait(*, outsider: bool) -> None:
    """Beside a job of three VMs until 10 s, and one that will then take all four."""
    ask = guest if outsider else local
    asked = [ask(2, 2, 5), ask(2, 1, 9), ask(2, 1, 5, ready_s=4)]
    history = play([local(0, 3, 10), local(1, 4, 10), *asked], [site("a", 4)])
    waits = {made.lease.id: made.reason for _, made in history.decisions(Outcome.WAIT)}
    assert waits == {
        2: Reason.ROOM_IN_USE,
        3: Reason.ROOM_IN_USE,
        4: Reason.BEHIND_OTHERS,
        5: Reason.NOT_READY_YET,
    }


@settings(max_examples=examples(100))
@given(case=cases(PREEMPTABLE), victims=st.sampled_from(list(VICTIM_POLICIES)))
def test_a_preemption_names_beneficiary_victims_cost_and_runner_up(case: Case, victims: str) -> None:
    world = Floor(unfold(case, three_sites(victims=victims)))
    for now_ms, made, report, running in world.preemptions:
        assert made.rule == victims
        assert (now_ms, report.beneficiary, made.site) in world.helped
        assert made.lease.id in report.victims
        assert set(report.victims) <= running.keys()
        check_a_set(report, report.victims, running)
        assert report.freed_vms == sum(running[number].vms for number in report.victims)
        assert report.cost_vm_ms == sum(cost_of(running[number]) for number in report.victims)


@settings(max_examples=examples(100))
@given(case=cases(PREEMPTABLE), victims=st.sampled_from(["mov", "mlip", "moml"]))
def test_the_runner_up_is_another_set_that_would_have_done(case: Case, victims: str) -> None:
    world = Floor(unfold(case, three_sites(victims=victims)))
    for _, _, report, running in world.preemptions:
        assert report.exact
        if report.runner_up is None:
            assert report.runner_up_cost_vm_ms is None
            assert len(list(sets_that_do(report, running))) == 1
        else:
            check_a_set(report, report.runner_up, running)
            assert set(report.runner_up) != set(report.victims)
            assert report.runner_up_cost_vm_ms == sum(cost_of(running[n]) for n in report.runner_up)


class Floor:
    """Who ran where at each preemption, from starts and ends alone."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.preemptions: list[tuple[int, Decision, Preemption, dict[int, Lease]]] = []
        self.helped: set[tuple[int, int, str]] = set()
        self._where: dict[int, tuple[str, Lease]] = {}
        self._at_choice: dict[int, dict[int, Lease]] = {}
        for now_ms, effect in chronicle.effects:
            if isinstance(effect, StartLease | ResumeLease | MigrateLease):
                pass
            elif isinstance(effect, Decision):
                self._decided(now_ms, effect)
            else:
                self._where.pop(getattr(getattr(effect, "lease", None), "id", 0), None)

    def _decided(self, now_ms: int, made: Decision) -> None:
        if made.outcome is Outcome.START or (made.outcome is Outcome.MOVE and made.rule == "soonest-finish"):
            self._where[made.lease.id] = (made.site, made.lease)
        if made.reason is Reason.ROOM_MADE:
            self.helped.add((now_ms, made.lease.id, made.site))
        if made.preemption is not None:
            report = made.preemption
            running = self._at_choice.setdefault(report.beneficiary, self._guests_at(made.site))
            self.preemptions.append((now_ms, made, report, running))
            self._where.pop(made.lease.id)

    def _guests_at(self, name: str) -> dict[int, Lease]:
        here = [lease for where, lease in self._where.values() if where == name]
        return {lease.id: lease for lease in here if not lease.request.is_local}


def cost_of(lease: Lease) -> int:
    """VM-milliseconds: 2 s to suspend and 3 s to resume, 7 s to migrate, each VM of 1 GiB."""
    kind = lease.request.lease_type
    assert [QUICK.suspend_ms(1024), QUICK.resume_ms(1024), QUICK.migrate_ms(1024)] == [2000, 3000, 7000]
    by_type = {LeaseType.CANCELABLE: 0, LeaseType.SUSPENDABLE: 5_000, LeaseType.MIGRATABLE: 7_000}
    return by_type[kind] * lease.vms


def check_a_set(report: Preemption, chosen: tuple[int, ...], running: dict[int, Lease]) -> None:
    """It frees enough, and no victim of it could have been spared."""
    sizes = [running[number].vms for number in chosen]
    assert sum(sizes) >= report.needed_vms >= 1
    assert sum(sizes) - min(sizes) < report.needed_vms


def sets_that_do(report: Preemption, running: dict[int, Lease]) -> list[tuple[int, ...]]:
    """Every set of running guests that frees enough and from which nobody can be spared."""
    every = chain.from_iterable(combinations(running, n) for n in range(1, len(running) + 1))
    sizes = {one: [running[number].vms for number in one] for one in every}
    return [one for one, vms in sizes.items() if sum(vms) >= report.needed_vms > sum(vms) - min(vms)]


class TestTheAccounts:
    """Counted per site: what was decided, and what became of the leases."""

    @settings(max_examples=examples(100))
    @given(case=cases(), own=worlds)
    def test_agree(self, case: Case, own: dict[str, Any]) -> None:
        chronicle = unfold(case, three_sites(**own), try_elsewhere=True)
        made = Counter((d.site, d.outcome) for _, d in chronicle.decisions())
        leases = chronicle.leases.values()
        for name in SLOTS:
            assert made[name, Outcome.START] == starts_at(chronicle, name)
        preempted = sum(lease.preemptions for lease in leases)
        assert sum(made[name, Outcome.PREEMPT] for name in SLOTS) == preempted
        migrated = [m for _, m in chronicle.decisions(Outcome.MOVE) if m.rule == "soonest-finish"]
        assert sum(m.lease.migrations > 0 for m in migrated) >= any(x.migrations for x in leases)
        sent = {m.lease.id for _, m in chronicle.decisions(Outcome.DISPATCH)}
        assert sent == {x.id for x in leases if not x.request.is_local and x.dispatched_ms >= 0}

    @settings(max_examples=examples(100))
    @given(case=cases(), own=worlds)
    def test_each_lease_is_refused_once_at_most_and_then_never_started(self, case: Case, own: dict[str, Any]) -> None:
        chronicle = unfold(case, three_sites(**own), try_elsewhere=True)
        final = [
            made.lease.id
            for _, made in chronicle.decisions(Outcome.REFUSE)
            if made.site == "" or made.lease.request.is_local
        ]
        refused = {n for n, lease in chronicle.leases.items() if lease.state is LeaseState.REFUSED}
        assert sorted(final) == sorted(refused)
        assert not any(made.lease.id in refused for _, made in chronicle.decisions(Outcome.START))
        for number in refused:
            assert chronicle.leases[number].first_start_ms < 0


def starts_at(chronicle: Chronicle, name: str) -> int:
    """Starts and resumptions at a site; by the pictures of the effects, because leases move."""
    kinds = ("StartLease", "ResumeLease")
    return sum(told.startswith(kinds) and f", site='{name}', state=" in told for _, told in chronicle.told)


def test_a_guest_that_is_moved_before_it_started_is_told_where_to() -> None:
    log = [guest(0, 2, 10, "migratable", ready_s=30, deadline_s=60), local(1, 4, 100)]
    history = play(log, [site("a", 4), site("b", 4)])
    assert history.moves(1) == [(30, "start", "b")]
    moved = [made.site for _, made in history.decisions(Outcome.MOVE) if made.lease.id == 1]
    assert moved == ["b"]
