"""Splitting a log: who is local where, who is external, on whose account."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.interpretation import LoggedStream, PlacingRule, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.lease_mix import LeaseMix
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.swf import SWF

Log = Callable[[str], Path]
Line = Callable[..., str]
Place = Callable[..., tuple[list[WorkloadJob], ReadingNotes]]


@pytest.fixture
def place(log: Log, swf_line: Line) -> Place:
    """Place eight jobs of users 1-4, groups 1-2, queues 0-1 and partitions 1-8 by some rules."""

    def placed(*rules: PlacingRule, seed: int = 1) -> tuple[list[WorkloadJob], ReadingNotes]:
        text = "".join(
            swf_line(number, user=number % 4 + 1, group=number % 2 + 1, queue=number // 5, partition=number)
            for number in range(1, 9)
        )
        notes = ReadingNotes("small")
        return list(logged_jobs(LoggedStream(log(text), SWF, rules, seed=seed), notes)), notes

    return placed


def local_ids(jobs: list[WorkloadJob], site: str | None) -> list[int]:
    return [int(job.source_id) for job in jobs if job.site == site]


def test_the_first_rule_that_agrees_decides(place: Place) -> None:
    jobs, notes = place(
        PlacingRule(where={"partition": [3, 4]}, site="west"),
        PlacingRule(where={"group": [2]}, site="east"),
        PlacingRule(),
    )

    assert local_ids(jobs, "west") == [3, 4]
    assert local_ids(jobs, "east") == [1, 5, 7]
    assert local_ids(jobs, None) == [2, 6, 8]
    assert notes.jobs == 8


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"user": [1]}, [4, 8]),
        ({"group": [1]}, [2, 4, 6, 8]),
        ({"queue": [1]}, [5, 6, 7, 8]),
        ({"partition": ["2", 5]}, [2, 5]),
        ({"site": [-1]}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"group": [1], "queue": [1]}, [6, 8]),
        ({"group": []}, []),
    ],
)
def test_selectors_are_lists_of_values_for_fields(
    place: Place, where: dict[str, list[int | str]], ids: list[int]
) -> None:
    jobs, _ = place(PlacingRule(where=where, site="here"), PlacingRule())

    assert local_ids(jobs, "here") == ids


def test_a_site_may_be_named_after_a_field(place: Place) -> None:
    jobs, _ = place(PlacingRule(site="lcg-{partition}"))

    assert [job.site for job in jobs] == [f"lcg-{number}" for number in range(1, 9)]


def test_a_consumer_may_be_named_after_fields(place: Place) -> None:
    jobs, _ = place(PlacingRule(site="here", consumer="g{group}-{queue}"))

    assert [job.consumer for job in jobs[:5]] == ["g2-0", "g1-0", "g2-0", "g1-0", "g2-1"]


def test_consumers_are_users_unless_said(place: Place) -> None:
    jobs, _ = place(PlacingRule())

    assert [job.consumer for job in jobs[:4]] == ["2", "3", "4", "1"]


def test_an_unknown_field_is_called_unknown(place: Place) -> None:
    jobs, _ = place(PlacingRule(site="at-{site}", consumer="plain"))

    assert {(job.site, job.consumer) for job in jobs} == {("at-unknown", "plain")}


def test_jobs_that_no_rule_is_about_are_left_out_and_counted(place: Place) -> None:
    jobs, notes = place(PlacingRule(where={"queue": [0]}, site="here"))

    assert local_ids(jobs, "here") == [1, 2, 3, 4]
    assert notes.skipped.total() == 4
    assert notes.jobs == 4


def test_local_jobs_are_non_preemptable(place: Place) -> None:
    jobs, _ = place(PlacingRule(site="here", mix=LeaseMix.only(LeaseType.CANCELABLE)))

    assert {job.lease_type for job in jobs} == {LeaseType.NON_PREEMPTABLE}


def test_external_jobs_can_all_have_one_type(place: Place) -> None:
    jobs, _ = place(PlacingRule(mix=LeaseMix.only(LeaseType.SUSPENDABLE)))

    assert {job.lease_type for job in jobs} == {LeaseType.SUSPENDABLE}


def test_external_types_are_drawn_from_the_seed(place: Place) -> None:
    one, same, other = place(PlacingRule(), seed=1)[0], place(PlacingRule(), seed=1)[0], place(PlacingRule(), seed=2)[0]

    assert one == same
    assert [job.lease_type for job in one] != [job.lease_type for job in other]


def test_migratable_jobs_of_a_log_have_deadlines(place: Place) -> None:
    jobs, _ = place(PlacingRule(mix=LeaseMix({LeaseType.MIGRATABLE: 1.0}, slack=(1.0, 1.0))))

    assert [job.deadline_ms for job in jobs] == [120_000] * 8


@pytest.mark.parametrize(
    "rule",
    [{"where": {"grp": [1]}}, {"site": "x-{partitions}"}, {"consumer": "{}"}, {"consumer": "{user.name}"}],
)
def test_a_field_that_is_none_is_refused(rule: dict[str, str]) -> None:
    with pytest.raises(UnknownName, match="one of group, partition, queue, site, user"):
        PlacingRule(**rule)  # type: ignore[arg-type]  # one setting of several


def test_a_name_with_a_single_brace_is_refused() -> None:
    with pytest.raises(InvalidField, match="braces"):
        PlacingRule(site="lcg-{partition")


@pytest.mark.parametrize("values", [5, "5"])
def test_a_selector_without_list_is_refused(values: object) -> None:
    with pytest.raises(InvalidField, match=r"where\.group: got .*expected a list, as in \[5\]"):
        PlacingRule(where={"group": values})  # type: ignore[dict-item]  # what a scenario file may say
