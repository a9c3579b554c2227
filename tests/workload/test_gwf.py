"""The GWF reader: where it differs from SWF."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.model.errors import InputError
from leasehold.simulation.workload.gwf import GWF
from leasehold.simulation.workload.interpretation import LoggedStream, PlacingRule, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes

Log = Callable[[str], Path]

HEADER = "# Grid Workload Format\n# 1 JobID\n#(fields contain -1 if not available)\n"


def line(submit: int, job: int = 1, separator: str = "\t") -> str:
    known = [job, submit, 12, 60, 2, 58.5, 2048.0, 4, 120, 4096, 1]
    names = ["U 7", "G1", "app", "short", "P2", "site.a", "site.b"] if separator == "\t" else ["U7", "G1"]
    names += [] if separator == "\t" else ["app", "short", "P2", "site.a", "site.b"]
    rest = ["UNITARY", -1, -1, -1, "cpu:1,mem:2", "i686,Linux", -1, -1, -1, "atlas", -1]
    return separator.join(map(str, [*known, *names, *rest])) + "\n"


def jobs_of(path: Path, rule: PlacingRule) -> list[WorkloadJob]:
    return list(logged_jobs(LoggedStream(path, GWF, [rule]), ReadingNotes("grid")))


def test_a_complete_line(log: Log) -> None:
    rule = PlacingRule(site="{site}/{partition}", consumer="{user} of {group} in {queue}")

    assert jobs_of(log(HEADER + line(100)), rule) == [
        WorkloadJob(
            submit_ms=100_000,
            vms=4,
            requested_ms=120_000,
            actual_ms=60_000,
            consumer="U 7 of G1 in short",
            source_id="1",
            site="site.a/P2",
            memory_mib=4,
            source="grid",
        )
    ]


def test_fields_may_be_parted_by_blanks(log: Log) -> None:
    jobs = jobs_of(log(HEADER + line(100, separator="  ")), PlacingRule(site="{site}", consumer="{user}"))

    assert (jobs[0].site, jobs[0].consumer, jobs[0].vms) == ("site.a", "U7", 4)


def test_blanks_around_tabs_do_not_matter(log: Log) -> None:
    jobs = jobs_of(log(line(100, separator=" \t ").replace("U7", "U 7")), PlacingRule(site="{site}"))

    assert (jobs[0].site, jobs[0].consumer) == ("site.a", "U 7")


def test_a_line_may_end_after_the_submitting_site(log: Log) -> None:
    short = "\t".join(line(100).split("\t")[:17])

    assert len(jobs_of(log(short), PlacingRule())) == 1


def test_seconds_since_1970_are_read_as_they_are(log: Log) -> None:
    jobs = jobs_of(log(line(1_108_000_000, 1) + line(1_108_000_007, 2)), PlacingRule())

    assert [job.submit_ms for job in jobs] == [1_108_000_000_000, 1_108_000_007_000]


def test_statuses_two_to_four_have_no_special_meaning(log: Log) -> None:
    text = line(100).replace("\t4096\t1\t", "\t4096\t3\t")

    assert len(jobs_of(log(text), PlacingRule())) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1\t2\t3\n", ":1: found 3 fields, expected the 17 to 30 of the Grid Workload Format"),
        (line(100) + line(99), "sort -s -n -k 2,2"),
        (line(100).replace("\t60\t", "\tlong\t"), "run time: got 'long'"),
        (HEADER, "holds no job"),
        ("; Version: 2.2\n", "found 3 fields"),
    ],
)
def test_what_is_no_gwf_is_refused(log: Log, text: str, told: str) -> None:
    with pytest.raises(InputError) as refusal:
        jobs_of(log(text), PlacingRule())

    assert told in str(refusal.value)
