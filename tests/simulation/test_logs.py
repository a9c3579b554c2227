"""Public workload logs through the examples: all jobs accounted for, no violation, nobody at home notices.

One class for each run, so that each is made once; the LCG is the long one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import validate
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import load_scenario

pytestmark = [pytest.mark.traces, pytest.mark.soak]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KTH, NASA, LCG = "KTH-SP2.swf.gz", "NASA-iPSC-1993-3.1-cln.swf.gz", "LCG-2005-1.swf.gz"
JOBS = {KTH: 28_489, NASA: 18_239, LCG: 188_041}
PREEMPTABLE = {"cancelable": 0.3, "suspendable": 0.5, "migratable": 0.2}

KTH_AS_GUESTS = """
[[stream]]
name = "KTH"
log = "KTH-SP2.swf.gz"
external = true
end_s = 7_950_000
types = { cancelable = 0.3, suspendable = 0.5, migratable = 0.2 }
"""

Play = Callable[..., Run]


@pytest.fixture(scope="session")
def played(workload_log: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Run an example beside these logs, as its comments ask for; ``more`` is added to it, ``keys`` set."""

    def play(example: str, *logs: str, more: str = "", **keys: Any) -> Run:
        folder = tmp_path_factory.mktemp(example)
        for log in logs:
            (folder / log).symlink_to(workload_log(log))
        file = folder / f"{example}.toml"
        file.write_text((EXAMPLES / file.name).read_text(encoding="utf-8") + more, encoding="utf-8")
        return load(run_scenario(load_scenario(file, keys), folder / "run").path)

    return play


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest, played: Play) -> Run:
    """The run that the class is about."""
    case = request.cls
    return played(case.example, *case.logs, more=case.more, **case.keys)


def own_starts(run: Run) -> pl.DataFrame:
    """The start of every local job, by its number in the run."""
    own = run.leases.filter(origin="local")
    return own.select("lease_id", start_ms="first_start_ms").sort("lease_id")


class EveryRun:
    """What holds for each of them; ``local`` and ``external`` say how many jobs there are."""

    example = ""
    logs: tuple[str, ...] = ()
    more = ""
    keys: ClassVar[dict[str, Any]] = {}
    local = 0
    external = 0

    def test_every_job_is_accounted_for(self, run: Run) -> None:
        jobs = run.manifest["jobs"]
        assert not run.is_partial
        assert (jobs["local"], jobs["external"], jobs["skipped"]) == (self.local, self.external, 0)
        assert run.leases.height == jobs["read"] == sum(jobs["by_state"].values())
        assert run.leases["end_ms"].null_count() == 0

    def test_the_independent_checker_finds_no_violation(self, run: Run) -> None:
        assert validate(run) == []

    def test_every_local_job_has_started(self, run: Run) -> None:
        assert own_starts(run)["start_ms"].null_count() == 0


class TestKth(EveryRun):
    local = JOBS[KTH]
    example = "kth"
    logs = (KTH,)


class TestNasa(EveryRun):
    local = JOBS[NASA]
    example = "nasa"
    logs = (NASA,)


class TestKthLendsToNasa(EveryRun):
    """A tenth of the guests cannot be preempted; they may have a tenth of the processors."""

    local = JOBS[KTH]
    external = JOBS[NASA]
    example = "kth-lends-to-nasa"
    logs = (KTH, NASA)

    def test_its_users_notice_but_hardly(self, run: Run) -> None:
        both = run.leases.join(run.baseline, on="lease_id")
        later_ms = both["first_start_ms"] - both["start_ms"]
        waited_ms = both["start_ms"] - both["ready_ms"]
        assert (later_ms != 0).any()
        assert abs(int(later_ms.sum())) < 0.5 * int(waited_ms.sum())


class NobodyAtHomeNotices(EveryRun):
    """Guests that can be preempted change no start of a local job, and there are enough of them to tell."""

    least_preemptions = 0

    def test_every_local_job_starts_when_it_does_without_guests(self, run: Run) -> None:
        assert own_starts(run).equals(run.baseline.sort("lease_id"))

    def test_guests_ran_and_gave_way(self, run: Run) -> None:
        assert run.leases.filter(origin="external")["first_start_ms"].count() > 0.8 * self.external
        assert int(run.leases["preemptions"].sum()) > self.least_preemptions


class TestKthLendsToPreemptableGuests(NobodyAtHomeNotices):
    local = JOBS[KTH]
    external = JOBS[NASA]
    least_preemptions = 1_000
    example = "kth-lends-to-nasa"
    logs = (KTH, NASA)
    keys: ClassVar[dict[str, Any]] = {"stream.NASA.types": PREEMPTABLE}

    def test_the_baseline_is_what_a_run_of_the_log_alone_finds(self, played: Play, run: Run) -> None:
        alone = played("kth", KTH, **{"cluster.KTH.local_policy": "conservative"})
        # Both number in the order of the log; guests have numbers in between.
        assert own_starts(run)["start_ms"].equals(own_starts(alone)["start_ms"])


class TestNasaLendsToPreemptableGuests(NobodyAtHomeNotices):
    """The first 92 days of the KTH's log: as many as the NASA's log has."""

    local = JOBS[NASA]
    external = 6_365
    least_preemptions = 100
    example = "nasa"
    logs = (NASA, KTH)
    more = KTH_AS_GUESTS


class TestLcg(NobodyAtHomeNotices):
    local = 173_669
    external = JOBS[LCG] - local
    least_preemptions = 100
    example = "lcg"
    logs = (LCG,)

    def test_its_170_sites_are_170_clusters(self, run: Run) -> None:
        assert run.sites.height == run.sites["site"].n_unique() == 170

    def test_its_virtual_organisations_are_the_consumers(self, run: Run) -> None:
        assert run.leases["consumer"].n_unique() == 28
        assert set(run.leases.filter(origin="external")["consumer"]) == {"16"}
        assert "16" not in set(run.leases.filter(origin="local")["consumer"])
