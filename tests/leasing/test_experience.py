"""What is learnt from measured times: the truth where it is steady, and from no single measurement."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.overhead import (
    ONE,
    PLANNED,
    PRIOR,
    REMEMBERED,
    LearntOverheads,
    MeasuredOverheads,
    Measurement,
    OverheadModel,
    upper_quartile,
)
from leasehold.model.event import Operation
from leasehold.model.request import LeaseType

GIB = 1024
MODEL = OverheadModel()
SUSPEND, RESUME, MIGRATE, START = Operation.SUSPEND, Operation.RESUME, Operation.MIGRATE, Operation.START

planned_operations = st.sampled_from(list(PLANNED))
times_ms = st.integers(1, 10_000_000)


def experience(operation: Operation, *took_ms: int, model: OverheadModel = MODEL) -> MeasuredOverheads:
    """Measured so often, each time of one VM with 1 GiB."""
    learnt = MeasuredOverheads(model)
    for one_ms in took_ms:
        learnt.note(operation, Measurement(GIB, 1, one_ms))
    return learnt


def planned_ms(learnt: MeasuredOverheads, operation: Operation) -> int:
    """What is planned for one VM with 1 GiB."""
    return PLANNED[operation](learnt.overheads(), GIB, 1)


def nearest(took_ms: int, configured_ms: int) -> tuple[int, int]:
    """Between which times a plan may be that has learnt this time: factors are in millionths."""
    return took_ms - configured_ms // ONE - 1, took_ms + configured_ms // ONE + 1


class TestSteadyTimes:
    @given(planned_operations, st.integers(500, 10_000_000))
    def test_are_planned_with_in_the_end(self, operation: Operation, took_ms: int) -> None:
        learnt = experience(operation, *[took_ms] * REMEMBERED)
        least_ms, most_ms = nearest(took_ms, PLANNED[operation](MODEL, GIB, 1))
        assert least_ms <= planned_ms(learnt, operation) <= most_ms

    @given(planned_operations, st.integers(1, 9_999), st.integers(1, 8))
    def test_of_other_leases_follow_in_proportion(self, operation: Operation, memory: int, vms: int) -> None:
        """Ten times as long for one lease is ten times as long for every lease."""
        learnt = experience(operation, *[10 * PLANNED[operation](MODEL, GIB, 1)] * REMEMBERED)
        model = learnt.overheads()
        assert PLANNED[operation](model, memory, vms) == 10 * PLANNED[operation](MODEL, memory, vms)

    def test_that_are_longer_than_configured_are_believed_from_the_second_on(self) -> None:
        factors = [experience(SUSPEND, *[320_000] * number).factor(SUSPEND) / ONE for number in range(5)]
        assert factors == [1, 1, 2, 2, 2]

    def test_that_are_shorter_are_believed_from_the_ninth_on(self) -> None:
        factors = [experience(SUSPEND, *[16_000] * number).factor(SUSPEND) / ONE for number in range(11)]
        assert factors == [1] * 9 + [0.1, 0.1]

    @given(planned_operations)
    def test_as_configured_change_nothing(self, operation: Operation) -> None:
        learnt = experience(operation, *[PLANNED[operation](MODEL, GIB, 1)] * REMEMBERED)
        assert learnt.overheads() is MODEL


class TestWithoutMeasurements:
    @pytest.mark.parametrize("operation", list(PLANNED))
    def test_it_is_planned_as_configured(self, operation: Operation) -> None:
        learnt = MeasuredOverheads(MODEL)
        assert learnt.overheads() is MODEL
        assert (learnt.factor(operation), learnt.count(operation)) == (ONE, 0)

    def test_of_other_operations_they_are_as_configured(self) -> None:
        model = experience(SUSPEND, *[320_000] * 5).overheads()
        assert model.suspend_ms(GIB) == 320_000
        assert model.resume_ms(GIB) == MODEL.resume_ms(GIB)
        assert model.migrate_ms(GIB) == MODEL.migrate_ms(GIB)

    def test_how_long_a_start_takes_is_not_known(self) -> None:
        assert MeasuredOverheads(MODEL).usual_ms(START) is None


class TestOutliers:
    @given(planned_operations, st.lists(times_ms, max_size=REMEMBERED - 1), times_ms)
    def test_one_never_is_the_factor_unless_others_were_as_long(
        self, operation: Operation, times: list[int], outlier_ms: int
    ) -> None:
        """However long it took: what is planned afterwards was measured, or configured, at another time."""
        configured_ms = PLANNED[operation](MODEL, GIB, 1)
        longest_ms = max([*times, configured_ms])
        after = planned_ms(experience(operation, *times, longest_ms + outlier_ms), operation)
        assert after <= nearest(longest_ms, configured_ms)[1]

    @given(st.lists(times_ms, max_size=REMEMBERED), times_ms)
    def test_one_moves_the_estimate_past_one_other_measurement_at_most(self, times: list[int], outlier_ms: int) -> None:
        before, after = experience(SUSPEND, *times), experience(SUSPEND, *times, outlier_ms)
        kept = times[-REMEMBERED:]
        ratios = sorted([*(_ratio(one_ms) for one_ms in kept), *[ONE] * PRIOR])
        low, high = sorted((before.factor(SUSPEND), after.factor(SUSPEND)))
        between = [ratio for ratio in ratios if low < ratio < high]
        assert len(set(between)) <= 1

    def test_the_longest_and_the_shortest_count_as_a_thousand_times(self) -> None:
        assert experience(SUSPEND, *[10**12] * 9).factor(SUSPEND) == 1_000 * ONE
        assert experience(SUSPEND, *[0] * 9).factor(SUSPEND) == ONE // 1_000


def _ratio(took_ms: int) -> int:
    return max(ONE // 1_000, min(took_ms * ONE // MODEL.suspend_ms(GIB), 1_000 * ONE))


class TestMemory:
    @given(st.lists(st.tuples(st.sampled_from(list(Operation)), st.integers(1, 4_096), times_ms), max_size=60))
    def test_after_a_restart_everything_is_as_before(self, noted: list[tuple[Operation, int, int]]) -> None:
        before, after = MeasuredOverheads(MODEL), MeasuredOverheads(MODEL)
        for operation, memory_mib, took_ms in noted:
            before.note(operation, Measurement(memory_mib, 1, took_ms))
        after.recall(before.memory())
        assert after.memory() == before.memory()
        assert after.overheads() == before.overheads()
        assert [after.usual_ms(one) for one in Operation] == [before.usual_ms(one) for one in Operation]

    def test_old_measurements_are_forgotten(self) -> None:
        learnt = experience(SUSPEND, *[320_000] * 50, *[160_000] * REMEMBERED)
        assert learnt.overheads() is MODEL
        assert learnt.count(SUSPEND) == REMEMBERED

    def test_what_was_measured_is_compared_with_what_is_configured_now(self) -> None:
        """Whoever corrects the configuration is not corrected a second time."""
        learnt = experience(SUSPEND, *[320_000] * 9)
        corrected = MeasuredOverheads(OverheadModel(suspend_ms_per_gib=320_000))
        corrected.recall(learnt.memory())
        assert corrected.factor(SUSPEND) == ONE

    def test_a_memory_of_less_is_a_memory(self) -> None:
        learnt = MeasuredOverheads(MODEL)
        learnt.recall({"suspend": [[GIB, 1, 320_000]] * 2})
        assert (learnt.count(SUSPEND), learnt.count(RESUME)) == (2, 0)


class TestWhatItIsUsedFor:
    def test_whoever_would_be_preempted_costs_what_it_really_costs(self) -> None:
        learnt = MeasuredOverheads(MODEL)
        for operation, factor in ((SUSPEND, 2), (RESUME, 3), (MIGRATE, 4)):
            for _ in range(REMEMBERED):
                learnt.note(operation, Measurement(GIB, 1, factor * PLANNED[operation](MODEL, GIB, 1)))
        model = learnt.overheads()
        assert isinstance(model, LearntOverheads)
        assert model.preempt_ms(LeaseType.SUSPENDABLE, GIB) == 2 * 160_000 + 3 * 126_000
        assert model.cost_vm_ms(LeaseType.MIGRATABLE, GIB, 2) == 2 * 4 * MODEL.migrate_ms(GIB, 2)
        assert model.preempt_ms(LeaseType.CANCELABLE, GIB) == MODEL.terminate_ms

    @pytest.mark.parametrize("kind", [LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE])
    def test_an_end_takes_as_long_as_configured(self, kind: LeaseType) -> None:
        told = OverheadModel(terminate_ms=700)
        model = experience(SUSPEND, *[320_000] * 5, model=told).overheads()
        assert model.terminate_ms == 700
        assert (model.preempt_ms(kind, GIB) == 700) == (kind is LeaseType.CANCELABLE)

    def test_where_nothing_is_configured_nothing_is_learnt(self) -> None:
        free = OverheadModel(suspend_ms_per_gib=0)
        learnt = experience(SUSPEND, *[5_000] * REMEMBERED, model=free)
        assert learnt.overheads() is free
        assert learnt.usual_ms(SUSPEND) == 5_000

    def test_times_are_rounded_up(self) -> None:
        model = experience(SUSPEND, *[160_001] * REMEMBERED).overheads()
        assert model.suspend_ms(1) == MODEL.suspend_ms(1) + 1
        assert model.suspend_ms(GIB) == 160_001

    def test_starts_are_known_and_not_planned_with(self) -> None:
        learnt = experience(START, 1_000, 2_000, 3_000, 60_000)
        assert (learnt.usual_ms(START), learnt.count(START)) == (3_000, 4)
        assert learnt.overheads() is MODEL


@given(st.lists(st.integers(), min_size=1))
def test_three_in_four_do_not_exceed_the_upper_quartile(values: list[int]) -> None:
    found = upper_quartile(values)
    enough: Callable[[int], bool] = lambda bound: 4 * sum(v <= bound for v in values) >= 3 * len(values)  # noqa: E731
    assert enough(found)
    assert not any(enough(value) for value in values if value < found)
