"""Correct runs have no violation, and every rule notices the one thing that it is there for."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.analysis.builders import Row, Tables
from tests.analysis.toy_world import ToyWorld

from leasehold.analysis.run import Run
from leasehold.analysis.validation import RULES, Violation, evidence, preemption, validate

Corruption = Callable[[Tables], object]


def test_the_run_worked_out_by_hand_is_correct(small: Run) -> None:
    assert validate(small) == []


@pytest.mark.parametrize("seed", range(5))
def test_random_work_in_the_toy_world_is_correct(seed: int, tmp_path: Path) -> None:
    guests = ("cancelable", "suspendable", "migratable", "non-preemptable")[: 4 - seed % 2]
    assert validate(ToyWorld(seed, jobs=300, guests=guests).tables.run(tmp_path)) == []


def _one_lease_twice(tables: Tables) -> None:
    tables.leases.append(dict(tables.of("leases", 7)))


def _one_job_lost(tables: Tables) -> None:
    tables.manifest["jobs"] = tables.counted() | {"read": 10}


def _a_state_miscounted(tables: Tables) -> None:
    tables.manifest["jobs"] = tables.counted() | {"by_state": {"completed": 9}}


def _a_value_missing(tables: Tables) -> None:
    tables.of("leases", 1)["consumer"] = None


def _a_decision_about_nobody(tables: Tables) -> None:
    tables.decided(0, 99, "dispatch", "routed", site="a")


def _a_segment_nowhere(tables: Tables) -> None:
    tables.decided(0, 1, "dispatch", "routed", site="nowhere")


def _a_preemption_not_counted(tables: Tables) -> None:
    tables.of("leases", 1)["preemptions"] = 0


def _a_first_start_misstated(tables: Tables) -> None:
    tables.of("leases", 2)["first_start_ms"] = 1


def _a_slot_fewer(tables: Tables) -> None:
    tables.sites[1]["slots"] = 3


def _guest_for_good(tables: Tables) -> None:
    """Add a correct Non-preemptable guest of three VMs at ``b``; its share there is two."""
    tables.sites[1]["non_preemptable_share_vms"] = 2
    times: Row = {"submit_ms": 200_000, "first_start_ms": 200_000, "end_ms": 205_000}
    tables.lease(10, "non-preemptable", vms=3, requested_ms=10_000, site="b", **times)
    tables.held(10, "b", (200_000, 205_000), "completed")


def _a_terminated_suspendable(tables: Tables) -> None:
    tables.of("leases", 2)["lease_type"] = "suspendable"


def _an_open_lease_before_the_horizon(tables: Tables) -> None:
    tables.of("leases", 7)["state"] = "waiting"


def _two_places_at_once(tables: Tables) -> None:
    tables.held(5, "a", (95_000, 95_000), "phase", "migrate")
    tables.of("segments", 5)["end_ms"] = 96_000
    tables.of("decisions", 5, 1)["time_ms"] = 96_000
    tables.of("decisions", 5, 1)["beneficiary"] = 11
    tables.of("leases", 5)["actual_ms"] += 152_000
    tables.local(11, "b", vms=1, requested_ms=2, submit_ms=96_000, first_start_ms=96_000, end_ms=96_001)
    tables.held(11, "b", (96_000, 96_001), "completed")
    tables.baseline.append({"lease_id": 11, "start_ms": 96_000})
    tables.sites[1]["slots"] = 8


def _part_of_a_lease(tables: Tables) -> None:
    tables.of("segments", 9)["vms"] = 3


def _an_unknown_kind(tables: Tables) -> None:
    tables.of("segments", 1, 1)["kind"] = "resting"
    tables.of("leases", 1)["overhead_vm_ms"] = 0


def _too_early(tables: Tables) -> None:
    tables.of("leases", 2)["ready_ms"] = 5


def _an_end_misstated(tables: Tables) -> None:
    tables.of("leases", 9)["end_ms"] = 96_000


def _a_completion_called_otherwise(tables: Tables) -> None:
    tables.of("segments", 9)["ended_by"] = "cancelled"


def _work_left_undone(tables: Tables) -> None:
    tables.of("leases", 1)["actual_ms"] += 2


def _work_done_twice(tables: Tables) -> None:
    tables.of("leases", 5)["actual_ms"] -= 20_000


def _killed_too_soon(tables: Tables) -> None:
    tables.of("leases", 8)["requested_ms"] += 2


def _a_local_away_from_home(tables: Tables) -> None:
    tables.of("segments", 8)["site"] = "a"
    tables.of("segments", 8)["end_ms"] = 80_000
    tables.of("leases", 8)["end_ms"] = 80_000
    tables.sites[0]["slots"] = 6


def _a_guest_for_good_in_pieces(tables: Tables) -> None:
    times: Row = {"submit_ms": 200_000, "first_start_ms": 200_000, "end_ms": 206_000}
    tables.lease(10, "non-preemptable", vms=3, requested_ms=10_000, site="b", **times)
    tables.held(10, "b", (200_000, 201_000), "phase")
    tables.held(10, "b", (202_000, 206_000), "completed")


def _a_cancelled_lease_goes_on(tables: Tables) -> None:
    tables.held(2, "a", (315_000, 315_000), "phase", "resume")
    tables.held(2, "a", (315_000, 375_000), "completed")
    tables.of("leases", 2).update(state="completed", reason="completed", end_ms=375_000)


def _a_suspended_lease_elsewhere(tables: Tables) -> None:
    tables.of("segments", 1, 1)["site"] = "b"
    tables.of("segments", 1, 2).update(site="b", end_ms=125_000)
    tables.of("leases", 1)["end_ms"] = 125_000


def _work_without_resume(tables: Tables) -> None:
    tables.segments.remove(tables.of("segments", 1, 1))


def _a_gap_after_the_resume(tables: Tables) -> None:
    tables.of("segments", 1, 1)["end_ms"] = 104_000


def _a_move_without_migration(tables: Tables) -> None:
    tables.of("segments", 5, 1)["kind"] = "resume"


def _a_deadline_missed(tables: Tables) -> None:
    tables.of("leases", 5)["deadline_ms"] = 314_999


def _a_beneficiary_who_starts_later(tables: Tables) -> None:
    tables.of("decisions", 1, 1)["beneficiary"] = 9


def _a_guest_as_beneficiary(tables: Tables) -> None:
    tables.of("decisions", 1, 1)["beneficiary"] = 5


def _a_preemption_without_decision(tables: Tables) -> None:
    tables.decisions.remove(tables.of("decisions", 1, 1))


def _a_preemption_decided_twice(tables: Tables) -> None:
    tables.decisions.append(tables.of("decisions", 1, 1) | {"victim_set": 9, "seq": 99})


def _too_little_freed(tables: Tables) -> None:
    tables.of("decisions", 1, 1)["needed_vms"] = 3


def _a_superfluous_victim(tables: Tables) -> None:
    tables.of("decisions", 2, 1)["needed_vms"] = 0


def _a_set_misstated(tables: Tables) -> None:
    tables.of("decisions", 2, 1)["set_leases"] = 2


def _a_promise_broken(tables: Tables) -> None:
    tables.of("decisions", 9)["planned_ms"] = 89_999


def _promised_anew(tables: Tables, reason: str) -> None:
    """Say that local job 9 was promised 85,000 ms before it was promised 90,000 ms for ``reason``."""
    second = tables.of("decisions", 9)
    first = second | {"planned_ms": 85_000}
    tables.decisions.insert(tables.decisions.index(second), first)
    second["reason"] = reason
    for number, row in enumerate(tables.decisions):
        row["seq"] = number


def _a_later_promise_without_cause(tables: Tables) -> None:
    _promised_anew(tables, "behind-others")


def _a_local_delayed(tables: Tables) -> None:
    tables.of("baseline", 9)["start_ms"] = 89_000


def _a_local_refused_because_of_guests(tables: Tables) -> None:
    tables.baseline.append({"lease_id": 10, "start_ms": 100_000})
    tables.local(10, "b", "refused", vms=1, requested_ms=5, submit_ms=100_000, end_ms=100_000, site=None)


def _together(tables: Tables) -> None:
    """Add a correct co-allocation, of 2 VMs at ``a`` and 3 at ``b``, which start together at 405,000 ms."""
    times: Row = {"submit_ms": 400_000, "requested_ms": 10_000, "coallocation_id": 1}
    tables.lease(20, "non-preemptable", vms=2, site="a", first_start_ms=400_000, end_ms=415_000, **times)
    tables.held(20, "a", (400_000, 405_000), "phase", "claim")
    tables.held(20, "a", (405_000, 415_000), "completed")
    tables.lease(21, "non-preemptable", vms=3, site="b", first_start_ms=404_000, end_ms=410_000, **times)
    tables.held(21, "b", (404_000, 405_000), "phase", "claim")
    tables.held(21, "b", (405_000, 410_000), "completed")
    tables.coallocation(1, 2, 5, started_ms=405_000, ended_ms=415_000, idle_vm_ms=13_000)


def _a_component_without_its_coallocation_request(tables: Tables) -> None:
    _together(tables)
    tables.coallocations.clear()


def _a_component_later_than_the_other(tables: Tables) -> None:
    _together(tables)
    tables.of("segments", 21, 1).update(start_ms=406_000, end_ms=411_000)
    tables.of("segments", 21).update(end_ms=406_000)
    tables.of("leases", 21).update(end_ms=411_000)
    tables.coallocations[0]["idle_vm_ms"] = 16_000


def _a_component_alone(tables: Tables) -> None:
    _together(tables)
    tables.segments.remove(tables.of("segments", 21, 1))
    tables.of("segments", 21).update(ended_by="cancelled")
    tables.of("leases", 21).update(state="cancelled", reason="claim-released", end_ms=405_000)


def _a_component_though_it_never_started(tables: Tables) -> None:
    _together(tables)
    tables.coallocations[0].update(started_ms=None, state="cancelled", reason="cancelled-by-user")


def _a_coallocation_request_over_too_soon(tables: Tables) -> None:
    _together(tables)
    tables.coallocations[0]["ended_ms"] = 410_000


def _a_refusal_of_what_runs(tables: Tables) -> None:
    _together(tables)
    tables.coallocations[0].update(state="refused", reason="no-common-room")


def _idle_time_forgotten(tables: Tables) -> None:
    _together(tables)
    tables.coallocations[0]["idle_vm_ms"] = 10_000


def _a_claim_for_nobody(tables: Tables) -> None:
    times: Row = {"submit_ms": 400_000, "first_start_ms": 400_000, "end_ms": 406_000}
    tables.lease(10, "non-preemptable", vms=3, requested_ms=10_000, site="b", **times)
    tables.held(10, "b", (400_000, 401_000), "phase", "claim")
    tables.held(10, "b", (401_000, 406_000), "completed")


def _nodes_as_they_may_be(tables: Tables) -> None:
    """Place two VMs of a half of a GPU each beside one without, one after another on the same device."""
    tables.placed(1, 2, (0, 10), "0+0")
    tables.placed(2, 1, (0, 10), "1")
    tables.placed(3, 2, (10, 20), "0+1")


def _a_core_given_twice(tables: Tables) -> None:
    _nodes_as_they_may_be(tables)
    tables.placed(4, 2, (9, 11), None)


def _a_device_given_twice(tables: Tables) -> None:
    _nodes_as_they_may_be(tables)
    tables.placed(4, 1, (9, 11), "0")


def _a_model_that_the_node_has_not(tables: Tables) -> None:
    _nodes_as_they_may_be(tables)
    tables.placed(4, 1, (20, 30), "0", gpu_model="h100")


CORRUPTIONS: list[tuple[str, Corruption]] = [
    ("lease-twice", _one_lease_twice),
    ("job-unaccounted", _one_job_lost),
    ("state-miscounted", _a_state_miscounted),
    ("value-missing", _a_value_missing),
    ("unknown-reference", _a_decision_about_nobody),
    ("unknown-reference", _a_segment_nowhere),
    ("counter-wrong", _a_preemption_not_counted),
    ("counter-wrong", _a_first_start_misstated),
    ("slots-exceeded", _a_slot_fewer),
    ("share-exceeded", _guest_for_good),
    ("state-illegal", _a_terminated_suspendable),
    ("state-illegal", _an_open_lease_before_the_horizon),
    ("segments-overlap", _two_places_at_once),
    ("segment-malformed", _part_of_a_lease),
    ("segment-malformed", _an_unknown_kind),
    ("start-before-ready", _too_early),
    ("end-disagrees", _an_end_misstated),
    ("end-disagrees", _a_completion_called_otherwise),
    ("work-wrong", _work_left_undone),
    ("work-wrong", _work_done_twice),
    ("killed-wrong", _killed_too_soon),
    ("local-disturbed", _a_local_away_from_home),
    ("non-preemptable-disturbed", _a_guest_for_good_in_pieces),
    ("cancelable-went-on", _a_cancelled_lease_goes_on),
    ("suspendable-moved", _a_suspended_lease_elsewhere),
    ("resumed-without-resume", _work_without_resume),
    ("resumed-without-resume", _a_gap_after_the_resume),
    ("moved-without-migration", _a_move_without_migration),
    ("deadline-missed", _a_deadline_missed),
    ("beneficiary-absent", _a_beneficiary_who_starts_later),
    ("beneficiary-absent", _a_guest_as_beneficiary),
    ("preemption-unmatched", _a_preemption_without_decision),
    ("preemption-unmatched", _a_preemption_decided_twice),
    ("too-little-freed", _too_little_freed),
    ("victim-superfluous", _a_superfluous_victim),
    ("set-miscounted", _a_set_misstated),
    ("promise-broken", _a_promise_broken),
    ("promise-broken", _a_later_promise_without_cause),
    ("home-noticed", _a_local_delayed),
    ("home-noticed", _a_local_refused_because_of_guests),
    ("coallocation-incomplete", _a_component_without_its_coallocation_request),
    ("coallocation-apart", _a_component_later_than_the_other),
    ("coallocation-apart", _a_component_alone),
    ("coallocation-apart", _a_component_though_it_never_started),
    ("coallocation-end-wrong", _a_coallocation_request_over_too_soon),
    ("coallocation-end-wrong", _a_refusal_of_what_runs),
    ("idle-miscounted", _idle_time_forgotten),
    ("claim-misplaced", _a_claim_for_nobody),
    ("node-overcommitted", _a_core_given_twice),
    ("node-overcommitted", _a_device_given_twice),
    ("model-absent", _a_model_that_the_node_has_not),
]


@pytest.mark.parametrize(("rule", "corrupt"), CORRUPTIONS, ids=[c.__name__[1:] for _, c in CORRUPTIONS])
def test_a_corruption_fires_exactly_its_rule(
    rule: str, corrupt: Corruption, corrupted: Callable[[Corruption], Run]
) -> None:
    assert {violation.rule for violation in validate(corrupted(corrupt))} == {rule}


def in_parts(run: Run, rows: int) -> list[Violation]:
    """Validate a run that is cut into parts of so many rows."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (evidence, preemption):
            patch.setattr(module, "ROWS_PER_PART", rows)
        patch.setattr("leasehold.analysis.run._ROWS_PER_SAMPLE", 1)
        return validate(run)


@pytest.mark.soak
@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(corrupt, id=corrupt.__name__[1:], marks=() if place % 30 else pytest.mark.example)
        for place, (_, corrupt) in enumerate(CORRUPTIONS)
    ],
)
def test_in_how_many_parts_a_run_is_looked_at_makes_no_difference(
    corrupt: Corruption, corrupted: Callable[[Corruption], Run]
) -> None:
    run = corrupted(corrupt)
    assert Counter(in_parts(run, 1)) == Counter(in_parts(run, 3)) == Counter(validate(run))


def test_victims_of_protected_types_are_noticed(corrupted: Callable[[Corruption], Run]) -> None:
    """No guest of that type may be disturbed either, so two rules speak, each of its own side."""

    def preempt_a_local_job(tables: Tables) -> None:
        tables.of("leases", 1)["lease_type"] = "non-preemptable"

    rules = {violation.rule for violation in validate(corrupted(preempt_a_local_job))}
    assert rules == {"victim-protected", "non-preemptable-disturbed"}


def test_every_rule_has_a_corruption_that_fires_it() -> None:
    covered = {rule for rule, _ in CORRUPTIONS} | {"victim-protected"}
    assert covered == {rule.name for rule in RULES}


def test_a_named_cause_may_move_a_promise(corrupted: Callable[[Corruption], Run]) -> None:
    run = corrupted(lambda tables: _promised_anew(tables, "local-plan-changed"))
    assert validate(run) == []


def test_components_may_hold_machines_idle_for_each_other(corrupted: Callable[[Corruption], Run]) -> None:
    assert validate(corrupted(_together)) == []


def test_a_promise_that_was_called_off_may_be_followed_by_a_later_one(
    corrupted: Callable[[Corruption], Run],
) -> None:
    def call_off(tables: Tables) -> None:
        _promised_anew(tables, "behind-others")
        second = tables.of("decisions", 9, 1)
        called_off = second | {"outcome": "hold", "reason": "component-unplaceable", "planned_ms": None}
        tables.decisions.insert(tables.decisions.index(second), called_off)
        for number, row in enumerate(tables.decisions):
            row["seq"] = number

    assert validate(corrupted(call_off)) == []


def test_an_agreement_that_keeps_a_guest_from_resuming_promises_nothing(corrupted: Callable[[Corruption], Run]) -> None:
    """Guest 1, which resumes at 95,000 ms, was to resume at 93,000 ms; its agreement first puts that off to 94,000."""

    def put_off(tables: Tables) -> None:
        start = tables.of("decisions", 1, 2)
        moved = start | {"time_ms": 80_000, "outcome": "move", "reason": "local-plan-changed", "planned_ms": 93_000}
        waits = start | {"outcome": "wait", "reason": "share-exhausted", "agreement": "first"}
        later = [waits | {"time_ms": at_ms, "planned_ms": at_ms + 1_000} for at_ms in (93_000, 94_000)]
        place = tables.decisions.index(start)
        tables.decisions[place:place] = [moved, *later]
        for number, row in enumerate(tables.decisions):
            row["seq"] = number

    assert validate(corrupted(put_off)) == []


def test_room_may_be_made_twice_for_a_job_that_another_scheduler_holds_back(
    corrupted: Callable[[Corruption], Run],
) -> None:
    """Guest 10 gives way to local job 6 at 15,000 ms, before guest 5 does at 20,000 ms."""

    def make_room_before(tables: Tables) -> None:
        of_guest: Row = {"site": "b", "first_start_ms": 14_000, "end_ms": 15_000, "preemptions": 1}
        times: Row = {"submit_ms": 14_000, "requested_ms": 9_000, "reason": "terminated"}
        tables.lease(10, "cancelable", "terminated", vms=1, **of_guest, **times)
        tables.sites[1]["slots"] = 5
        tables.held(10, "b", (14_000, 15_000), "preempted")
        tables.of("leases", 6)["submit_ms"] = tables.of("leases", 6)["ready_ms"] = 15_000
        tables.held(6, "b", (15_000, 15_001), "failed", "start")
        tables.preempted(15_000, victim=10, site="b", by=6, victim_set=1, needed=1)

    assert validate(corrupted(make_room_before)) == []


def test_non_preemptable_guests_may_delay_locals(corrupted: Callable[[Corruption], Run]) -> None:
    def add_one(tables: Tables) -> None:
        _guest_for_good(tables)
        tables.sites[1]["non_preemptable_share_vms"] = None
        _a_local_delayed(tables)

    assert validate(corrupted(add_one)) == []


def _a_local_job_cut_short(tables: Tables) -> None:
    """Local job 8 asked for 10 s more than it had, and its machines were awaited."""
    tables.of("leases", 8)["requested_ms"] += 20_000
    tables.held(8, "b", (59_000, 60_000), "phase", "start")


def test_a_local_job_that_was_late_ends_by_the_time_that_a_non_preemptable_guest_was_promised(
    corrupted: Callable[[Corruption], Run],
) -> None:
    def promise(tables: Tables, at_ms: int) -> None:
        _a_local_job_cut_short(tables)
        times: Row = {"submit_ms": 55_000, "first_start_ms": at_ms, "end_ms": at_ms + 5_000}
        tables.lease(10, "non-preemptable", vms=3, requested_ms=10_000, site="b", **times)
        tables.held(10, "b", (at_ms, at_ms + 5_000), "completed")
        tables.decided(55_000, 10, "wait", "not-ready-yet", site="b", planned_ms=at_ms)

    assert validate(corrupted(lambda tables: promise(tables, 70_000))) == []
    assert [one.rule for one in validate(corrupted(lambda tables: promise(tables, 71_000)))] == ["killed-wrong"]


def test_rounding_up_to_a_millisecond_is_no_violation(corrupted: Callable[[Corruption], Run]) -> None:
    """Local job 6 runs on twice the speed, so an odd number of milliseconds of work ends half a one early."""

    def make_odd(tables: Tables) -> None:
        tables.of("leases", 6)["actual_ms"] -= 1

    assert validate(corrupted(make_odd)) == []


def test_a_violation_says_where_when_and_how(corrupted: Callable[[Corruption], Run]) -> None:
    (violation,) = validate(corrupted(_a_deadline_missed))
    assert (violation.lease_id, violation.site, violation.time_ms) == (5, "a", 315_000)
    assert violation.sentence == "completed at 315000 ms, after its deadline 314999 ms"


def test_open_leases_at_the_horizon_are_legal(corrupted: Callable[[Corruption], Run]) -> None:
    def stop_early(tables: Tables) -> None:
        tables.of("leases", 5).update(state="running", reason="horizon-reached", end_ms=None)
        tables.of("segments", 5, 2).update(end_ms=300_000, ended_by="horizon")

    assert validate(corrupted(stop_early)) == []


def test_nodes_that_give_nothing_twice_are_well(corrupted: Callable[[Corruption], Run]) -> None:
    assert validate(corrupted(_nodes_as_they_may_be)) == []
