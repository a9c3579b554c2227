"""What is within its bound, undecided or not; which policies are compared where; and how much of it is run."""

from collections.abc import Callable
from math import nan

import pytest

from leasehold.experiments.beyond.evaluation import (
    ROLES,
    BeyondOutcome,
    Reach,
    outcome_of,
    page,
    possible,
    reach_of,
    replications,
    summary,
    which_policy,
)
from leasehold.experiments.beyond.plan import BeyondPlan, Setting, TargetBounds, plan, settings_named
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.report import markdown
from leasehold.experiments.statistics import Interval
from leasehold.model.errors import InvalidField
from leasehold.routing.registry import ROUTING_POLICIES, parted

READ = plan()
HALF = {"selective": 0.35, "pap-rtdp": 0.9, "most-free": 0.7, "clairvoyant": 0.1}
"""How many VMs are preempted, as part of what the others do."""


def ratio(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 30)


@pytest.mark.parametrize(
    ("found", "reach"),
    [
        (ratio(0.30, 0.39), Reach.REACHED),
        (ratio(0.35, 0.45), Reach.NOT_REACHED),  # the upper end counts
        (ratio(0.45, 0.50), Reach.NOT_REACHED),
    ],
)
def test_of_vms_preempted_the_upper_end_counts(found: Interval, reach: Reach) -> None:
    assert reach_of(TargetBounds("vms_preempted", at_most=0.4), found) is reach


@pytest.mark.parametrize(
    ("found", "reach"),
    [
        (ratio(0.90, 1.00), Reach.REACHED),
        (ratio(0.95, 1.05), Reach.UNDECIDED),
        (ratio(1.01, 1.05), Reach.NOT_REACHED),
        (Interval(nan, nan, nan, 0), Reach.UNDECIDED),
    ],
)
def test_of_all_else_what_is_not_sure_is_undecided(found: Interval, reach: Reach) -> None:
    assert reach_of(TargetBounds("awrt_s", at_most=1.0), found) is reach


def test_a_little_more_may_count_as_no_more() -> None:
    wanted = TargetBounds("local_rejection_pct", at_most=1.0, spare=0.02)
    assert reach_of(wanted, ratio(0.98, 1.02)) is Reach.REACHED
    assert reach_of(wanted, ratio(0.98, 1.03)) is Reach.UNDECIDED
    assert reach_of(wanted, ratio(1.03, 1.05)) is Reach.NOT_REACHED


@pytest.mark.parametrize(
    ("found", "reach"),
    [
        (ratio(1.00, 1.10), Reach.REACHED),
        (ratio(0.95, 1.05), Reach.UNDECIDED),
        (ratio(0.90, 0.99), Reach.NOT_REACHED),
    ],
)
def test_what_should_not_be_less(found: Interval, reach: Reach) -> None:
    assert reach_of(TargetBounds("guest_work_vm_h", at_least=1.0), found) is reach


def test_every_contender_has_a_policy_and_a_name_of_its_own() -> None:
    names = [one.name for one in READ.contenders]
    assert len(set(names)) == len(names)
    known = {*ROUTING_POLICIES, READ.foresight}
    assert {parted(one.gateway["policy"])[0] for one in READ.contenders} <= known
    assert READ.reference in names
    for setting in READ.settings:
        assert READ.reference in {one.name for one in READ.contenders_in(setting)}


def test_where_local_requests_wait_their_wait_counts() -> None:
    of = {one.name: {wanted.metric for wanted in READ.wanted_in(one)} for one in READ.settings}
    assert "local_rejection_pct" in of["R2"]
    assert "local_wait_s" in of["R2-queue"] & of["KTH"]
    assert "local_rejection_pct" not in of["R2-queue"] | of["KTH"]
    bounds = {one.name: READ.wanted_in(one)[0].at_most for one in READ.settings}
    assert (bounds["R2"], bounds["R0"], bounds["NASA"]) == (0.4, 0.4, 0.4)


def test_settings_with_a_log_are_left_out_where_there_is_none() -> None:
    found = possible(READ.settings, None, asked=False)
    assert found
    assert all(one.log is None for one in found)
    with pytest.raises(InvalidField, match=r"--logs: .*KTH-SP2\.swf\.gz"):
        possible(settings_named(READ, ["beyond-kth"]), None, asked=True)


def test_fewer_seeds_are_fewer_in_proportion() -> None:
    main, other = (next(one for one in READ.settings if one.role == role) for role in ("main", "variant"))
    assert len(replications(READ, main, None)) == READ.replications
    assert len(replications(READ, main, 10)) == 10
    assert len(replications(READ, other, 10)) == -(-10 * other.replications // READ.replications)
    assert len(replications(READ, other, 2)) == 2


# The report


Part = Callable[[str, str], float]
"""By contender and metric: as part of what RR has."""


def preempting_less(contender: str, metric: str) -> float:
    return HALF.get(contender, 1.0) if metric == "vms_preempted" else 1.0


def results(read: BeyondPlan, settings: list[Setting], part: Part = preempting_less) -> BeyondOutcome:
    """Ten replications in which policies differ from RR by a factor, and in nothing else."""
    found = {
        read.name_of(setting, one.name): {
            metric: [part(one.name, metric) * (100 + number) for number in range(10)] for metric in METRICS
        }
        for setting in settings
        for one in read.contenders_in(setting)
    }
    return outcome_of(read, settings, {one.name: 10 for one in settings}, found)


def test_the_report_begins_with_the_leading_policy_beside_the_best_published_one() -> None:
    settings = [one for one in READ.settings if one.role == "main"]
    outcome = results(READ, settings)
    report = markdown(page(outcome))
    title, lesson, picture, made = report.split("\n\n")[:4]
    assert title == "# Leasehold's routing policies compared with the published ones"
    assert lesson.startswith(
        "**In short.** VMs preempted as ratio to RR (round robin): Leasehold's policy selective 0.35"
    )
    assert "0.35 (0.35 to 0.35) in R2" in lesson
    assert "PAP-RTDP 0.90 (0.90 to 0.90) in R0" in lesson
    assert (
        "In R2 and R0, no [other metric](#selective-in-every-setting) of selective is worse than that of RR." in lesson
    )
    assert "R0: published base point, Table 2 to the letter, durations in seconds on a machine of 200 MIPS." in lesson
    assert "](beyond-ratios.svg)" in picture
    assert "(full size: 100 of 48 hours)" in made
    assert "R2: 0.35 (0.35 to 0.35) of the VMs that RR preempts; none worse." in report
    assert report.count("](beyond-ratios.svg)") == report.count("](beyond-pareto.svg)") == 1
    assert "wanted" not in report
    for contender in READ.contenders:
        assert f"| {contender.title} |" in report
        knows = READ.information(contender)
        is_in_main = any(map(contender.is_in, settings))
        assert (f"| {contender.title} | {knows} | 10 |" in which_policy(outcome)) is is_in_main


def test_metrics_that_are_worse_or_undecided_are_named() -> None:
    def part(contender: str, metric: str) -> float:
        slow = contender == "selective" and metric == "awrt_s"
        return 2.0 if slow else preempting_less(contender, metric)

    outcome = results(READ, [READ.settings[0]], part)
    (line,) = summary(outcome)
    assert line == "R2: 0.35 (0.35 to 0.35) of the VMs that RR preempts; worse: AWRT, eq 24 (s)."
    report = markdown(page(outcome))
    assert "Other metrics of selective in R2: R2: worse: AWRT, eq 24 (s)." in report
    assert "| selective | live | 0.35 (0.35 to 0.35), 1 worse |" in report


@pytest.mark.evaluation
def test_settings_of_one_kind_stand_together() -> None:
    report = markdown(page(results(READ, list(READ.settings))))
    assert {one.role for one in READ.settings} == set(ROLES)
    for role, heading in ROLES.items():
        names = [one.name for one in READ.settings if one.role == role]
        table = report.partition(f"### {heading}\n\n")[2].partition("\n\n")[0]
        assert table.startswith(f"| contender | knows | {' | '.join(names)} |")
        assert ("| LRF-RND |" in table) is (role == "main")


def test_a_policy_that_only_does_better_than_some_does_not_reach_it() -> None:
    outcome = results(READ, [READ.settings[0]])
    reach = {one.contender.name: one.reach for one in outcome.standings}
    assert reach["selective"] is Reach.REACHED
    assert reach["most-free"] is Reach.NOT_REACHED
