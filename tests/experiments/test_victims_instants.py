"""All rules on the same instants: asking changes nothing, and what is counted is what happens."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.experiments.evaluation import Size
from leasehold.experiments.victims import evaluation, world
from leasehold.experiments.victims.plan import GUARANTEES, INSTANTS, configuration_named, plan
from leasehold.experiments.victims.world import MEANS, RuleProbe, means
from leasehold.leasing.victims.candidate import Candidate, cost_of, vms_of
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

HOURS = 2
FIRST, SECOND, THIRD = LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE


def asked_about(candidates: list[Candidate], needed_vms: int) -> dict[str, float]:
    probe = RuleProbe(victim_policy("mov"), plan(HOURS).rules)
    assert probe.choose(candidates, needed_vms) == victim_policy("mov").choose(candidates, needed_vms)
    return means([probe])


def test_an_instant_in_numbers() -> None:
    candidates = [
        Candidate(1, FIRST, 3, 0, 0, lost_vm_ms=6_000, ran_ms=2_000),
        Candidate(2, SECOND, 2, 4_000, 0, ran_ms=1_000),
        Candidate(3, THIRD, 2, 5_000, 0, ran_ms=500),
    ]
    found = asked_about(candidates, 2)
    assert [found[f"optimum:{key}"] for key in MEANS] == [1, 2, 0, 0, 0]
    assert [found[f"Kueue:{key}"] for key in MEANS] == [1, 3, 1, 0, 6]
    assert [found[f"Haizea:{key}"] for key in MEANS] == [1, 2, 0, 5, 0]
    assert (found["Haizea:dearer_type_pct"], found["Kueue:dearer_type_pct"]) == (100, 0)
    assert (found["Haizea:beaten_pct"], found["Kueue:beaten_pct"]) == (100, 0)  # 2 is cheaper than 3
    assert (found["instants"], found["forced"], found["inexact"]) == (1, 0, 0)


def test_where_there_is_no_choice_it_is_counted() -> None:
    assert asked_about([Candidate(1, FIRST, 3, 0, 0)], 2)["forced"] == 1


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    st.data(),
)
def test_the_optimum_is_that_of_each_column_alone(shapes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    candidates = [
        Candidate(number, SECOND, vms, cost * 1_000, 0, lost * 1_000) for number, (vms, cost, lost) in enumerate(shapes)
    ]
    needed_vms = data.draw(st.integers(1, vms_of(candidates)))
    every = (one for size in range(1, len(candidates) + 1) for one in combinations(candidates, size))
    covers = [one for one in every if vms_of(one) >= needed_vms]
    found = asked_about(candidates, needed_vms)
    assert found["optimum:leases"] == min(map(len, covers))
    assert found["optimum:vms"] == min(map(vms_of, covers))
    assert found["optimum:excess"] == min(map(vms_of, covers)) - needed_vms
    assert found["optimum:overhead_vm_s"] == min(map(cost_of, covers)) / 1_000
    assert found["optimum:lost_vm_s"] == min(sum(lease.lost_vm_ms for lease in cover) for cover in covers) / 1_000
    assert all(found[f"{name}:vms"] >= found["optimum:vms"] for name in plan(HOURS).rules)


def test_whoever_asks_leaves_the_run_as_it_is() -> None:
    """The published rule decides: as many VMs are preempted as in the run without questions."""
    found = world.measure(f"{INSTANTS}-{HOURS}h", 1)
    plain = world.measure(f"moml-{HOURS}h", 1)
    assert found["instants"] > 0
    assert found["instants"] * found["by-value:moml:vms"] == pytest.approx(plain["vms_preempted"])
    assert found["instants"] * found["by-value:moml:leases"] == pytest.approx(plain["preemptions"])


def test_a_guarantee_reaches_the_sites_of_the_run() -> None:
    found, plain = (world.measure(f"{name}-{HOURS}h", 1) for name in ("both", "exact-cover"))
    assert found["vms_preempted"] != plain["vms_preempted"]
    assert found["leases_over_three_times"] <= found["leases_twice"] <= found["leases_preempted"]
    assert found["most_preemptions"] >= 1


class TestPlan:
    def test_names_say_what_and_how_long(self) -> None:
        read = plan(HOURS)
        assert configuration_named("in-turns-2h") == (read, read.variants["in-turns"])
        assert configuration_named("victims-instants-2h")[1].name == INSTANTS
        assert read.names_of([GUARANTEES]) == [f"{name}-2h" for name in read.variants]
        assert read.names_of([]) == [*read.names_of([INSTANTS]), *read.names_of([GUARANTEES])]

    def test_what_does_not_exist_is_refused(self) -> None:
        with pytest.raises(InvalidField, match="one of victims-instants-2h, moml-2h"):
            configuration_named("nobody-2h")

    def test_each_variant_is_compared_with_another_one(self) -> None:
        variants = plan(HOURS).variants
        assert {one.against for one in variants.values()} - {None} <= set(variants)

    def test_marks_differ_by_what_is_asked(self) -> None:
        marks = evaluation.campaign([], Size(quick=True)).marks
        assert len(set(marks.values())) == len(marks) == len(plan(HOURS).names_of([]))
