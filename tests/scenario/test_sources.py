"""Which jobs a scenario has: whose they are, when they come, and in which order."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from leasehold.model.errors import InputError
from leasehold.model.request import LeaseType
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes

Load = Callable[[str], Scenario]

HEAD = 'name = "x"\n[[cluster]]\nname = "a"\nslots = 8\n'
JOBS = [
    # submit_s, run_s, processors, user, group, partition
    (0, 100, 4, 1, 1, 1),
    (60, 100, 2, 2, 2, 1),
    (120, 100, 8, 1, 1, 2),
    (180, 100, 1, 3, 2, 3),
]


@pytest.fixture(autouse=True)
def log(swf: Callable[..., Path]) -> Path:
    return swf("own.swf", JOBS)


def stream(rest: str, name: str = "own", file: str = "own.swf") -> str:
    return f'[[stream]]\nname = "{name}"\nlog = "{file}"\n{rest}\n'


def jobs_of(scenario: Scenario) -> list[WorkloadJob]:
    return list(open_streams(scenario, []))


class TestWhose:
    def test_all_local_to_a_cluster(self, loaded: Load) -> None:
        jobs = jobs_of(loaded(HEAD + stream('site = "a"')))
        assert [job.site for job in jobs] == ["a"] * 4
        assert {job.lease_type for job in jobs} == {LeaseType.NON_PREEMPTABLE}

    def test_a_cluster_for_each_value_of_a_field(self, loaded: Load) -> None:
        jobs = jobs_of(loaded(HEAD + stream('cluster_by = "partition"')))
        assert [job.site for job in jobs] == ["partition-1", "partition-1", "partition-2", "partition-3"]

    def test_all_from_outside(self, loaded: Load) -> None:
        jobs = jobs_of(loaded(HEAD + stream("external = true\ntypes = { cancelable = 1.0 }")))
        assert [(job.site, job.lease_type) for job in jobs] == [(None, LeaseType.CANCELABLE)] * 4

    def test_some_from_outside(self, loaded: Load) -> None:
        text = 'site = "a"\nexternal = { group = [2] }\ntypes = { suspendable = 1.0 }'
        jobs = jobs_of(loaded(HEAD + stream(text)))
        assert [job.site for job in jobs] == ["a", None, "a", None]

    def test_from_outside_where_all_fields_agree(self, loaded: Load) -> None:
        text = 'site = "a"\nexternal = { group = [2], user = ["3"] }'
        assert [job.site for job in jobs_of(loaded(HEAD + stream(text)))] == ["a", "a", "a", None]

    def test_consumers_by_a_field(self, loaded: Load) -> None:
        text = 'site = "a"\nconsumer_by = "group"'
        assert [job.consumer for job in jobs_of(loaded(HEAD + stream(text)))] == ["1", "2", "1", "2"]

    def test_a_name_with_braces_is_only_a_name(self, loaded: Load) -> None:
        text = HEAD.replace('"a"', '"{user}"') + stream('site = "{user}"')
        assert {job.site for job in jobs_of(loaded(text))} == {"{user}"}


class TestWhen:
    @pytest.mark.parametrize(
        ("keys", "submitted_s"),
        [
            ("", [0, 60, 120, 180]),
            ("begin_s = 60", [0, 60, 120]),
            ("end_s = 120", [0, 60]),
            ("begin_s = 60\nend_s = 180", [0, 60]),
            ("shift_s = 30", [30, 90, 150, 210]),
            ("load = 2", [0, 30, 60, 90]),
            ("begin_s = 60\nload = 0.5\nshift_s = 5", [5, 125, 245]),
        ],
    )
    def test_window_then_load_then_shift(self, loaded: Load, keys: str, submitted_s: list[int]) -> None:
        jobs = jobs_of(loaded(HEAD + stream(f'site = "a"\n{keys}')))
        assert [job.submit_ms for job in jobs] == [1000 * second for second in submitted_s]

    def test_nothing_at_or_after_the_horizon(self, loaded: Load) -> None:
        jobs = jobs_of(loaded("horizon_s = 120\n" + HEAD + stream('site = "a"')))
        assert [job.submit_ms for job in jobs] == [0, 60_000]

    def test_a_log_that_counts_from_1970_may_begin_at_zero(self, loaded: Load, swf: Callable[..., Path]) -> None:
        swf("late.swf", [(1_131_000_000, 10, 1, 1, 1, 1), (1_131_000_007, 10, 1, 1, 1, 1)])
        jobs = jobs_of(loaded(HEAD + stream('site = "a"\nfrom_zero = true', file="late.swf")))
        assert [job.submit_ms for job in jobs] == [0, 7000]

    def test_streams_are_merged_by_time_and_the_first_one_goes_first(self, loaded: Load) -> None:
        text = HEAD + stream('site = "a"') + stream("external = true", name="others")
        jobs = jobs_of(loaded(text))
        assert [job.source for job in jobs] == ["own", "others"] * 4
        assert all(first.submit_ms <= second.submit_ms for first, second in pairwise(jobs))


class TestModel:
    def test_comes_load_times_as_often(self, loaded: Load, small_toml: str) -> None:
        once = jobs_of(loaded(small_toml.replace("horizon_s = 3_600", "horizon_s = 360_000")))
        text = small_toml.replace('model = "das2"', 'model = "das2"\nload = 2')
        twice = jobs_of(loaded(text.replace("horizon_s = 3_600", "horizon_s = 180_000")))
        of_model = [[job for job in jobs if job.source == "guests"] for jobs in (once, twice)]
        assert [job.submit_ms for job in of_model[1]] == [round(job.submit_ms / 2) for job in of_model[0]]
        assert len(of_model[0]) > 1000

    def test_is_the_same_for_the_same_seed_only(self, loaded: Load, small_toml: str) -> None:
        first, again, other = (jobs_of(loaded(f"seed = {seed}\n{small_toml}")) for seed in (1, 1, 2))
        assert first == again
        assert first != other


class TestReading:
    def test_is_accounted_for_by_stream(self, loaded: Load) -> None:
        notes: list[ReadingNotes] = []
        scenario = loaded(HEAD + stream('site = "a"') + stream("external = true", name="others"))
        assert len(list(open_streams(scenario, notes))) == 8
        assert [(note.source, note.read, note.jobs) for note in notes] == [("own", 4, 4), ("others", 4, 4)]

    def test_is_lazy(self, loaded: Load, swf: Callable[..., Path]) -> None:
        path = swf("own.swf", JOBS)
        path.write_text(path.read_text() + "this is no job\n")
        jobs = open_streams(loaded(HEAD + stream('site = "a"')), [])
        assert next(jobs).submit_ms == 0
        with pytest.raises(InputError, match=r"own\.swf:6: "):
            list(jobs)
