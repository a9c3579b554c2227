"""What the tests of workload logs share: a log of few lines, written where a test may write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.simulation.workload.interpretation import LoggedStream, LogInterpretation, PlacingRule, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.swf import SWF

HOME = PlacingRule(site="home")


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], Path]:
    """Write text to a log and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "small.swf"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def swf_line() -> Callable[..., str]:
    """Make one SWF line; whatever a test does not name is unknown."""

    def line(job: object = 1, submit: object = 0, run: object = 60, size: object = 4, **more: object) -> str:
        fields = [job, submit, -1, run, size, -1, -1, more.get("requested", -1), more.get("time", -1)]
        fields += [more.get("memory", -1), more.get("status", 1), more.get("user", -1), more.get("group", -1)]
        fields += [-1, more.get("queue", -1), more.get("partition", -1), -1, -1]
        return " ".join(map(str, fields)) + "\n"

    return line


@pytest.fixture
def read_swf() -> Callable[..., tuple[list[WorkloadJob], ReadingNotes]]:
    """Read a whole SWF log: its jobs, all at home unless rules say otherwise, and the notes."""

    def read(
        path: Path, rule: PlacingRule = HOME, interpretation: LogInterpretation | None = None
    ) -> tuple[list[WorkloadJob], ReadingNotes]:
        notes = ReadingNotes("small")
        reading = interpretation or LogInterpretation()
        jobs = list(logged_jobs(LoggedStream(path, SWF, [rule], reading), notes))
        return jobs, notes

    return read
