"""Public workload logs: every job is read or counted, with the assumptions that each log calls for."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.simulation.scenario.sources import cluster_sizes, local_demand
from leasehold.simulation.workload.interpretation import LoggedStream, PlacingRule, logged_blocks, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.job_block import JobBlock
from leasehold.simulation.workload.log_columns import Names
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.swf import SWF, swf_header

pytestmark = pytest.mark.traces

KTH = "KTH-SP2.swf.gz"
NASA = "NASA-iPSC-1993-3.1-cln.swf.gz"
LCG = "LCG-2005-1.swf.gz"

Find = Callable[[str], Path]


def jobs_of(path: Path, rule: PlacingRule, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    return logged_jobs(LoggedStream(path, SWF, [rule]), notes)


def assumed(notes: ReadingNotes, phrase: str) -> int:
    return sum(count for told, count in notes.assumed.items() if phrase in told)


def test_kth(workload_log: Find) -> None:
    notes = ReadingNotes("KTH")
    header = swf_header(workload_log(KTH))

    jobs = list(jobs_of(workload_log(KTH), PlacingRule(site="KTH"), notes))

    assert len(jobs) == notes.jobs == 28_489
    assert not notes.skipped
    assert header.max_procs() == 100
    assert max(job.vms for job in jobs) <= 100
    assert len({job.consumer for job in jobs}) == 214
    assert assumed(notes, "longer than they had requested") == 475
    assert assumed(notes, "for 0 s") == 8


def test_nasa(workload_log: Find) -> None:
    notes = ReadingNotes("NASA")
    header = swf_header(workload_log(NASA))

    jobs = list(jobs_of(workload_log(NASA), PlacingRule(site="NASA"), notes))

    assert len(jobs) == notes.jobs == 18_239 == int(header.values()["MaxJobs"][0])
    assert header.names("Queue") == {"0": "interactive", "1": "batch"}
    assert all(job.vms.bit_count() == 1 for job in jobs)
    assert assumed(notes, "the time they requested") == 18_239


def test_lcg_is_170_clusters(workload_log: Find) -> None:
    notes = ReadingNotes("LCG")
    header = swf_header(workload_log(LCG))
    consumers: Counter[str] = Counter()

    def counted(blocks: Iterator[JobBlock]) -> Iterator[JobBlock]:
        for block in blocks:
            consumers.update(block.names.texts[code] for code in block.consumer.tolist())
            block.note()
            yield block

    rule = PlacingRule(site="{partition}", consumer="{group}")
    log = LoggedStream(workload_log(LCG), SWF, [rule])
    demands = local_demand(counted(logged_blocks(log, notes, Names())))

    assert notes.jobs == consumers.total() == 188_041
    assert set(header.names("Partition")) >= set(demands)
    assert len(header.names("Partition")) == 170
    assert len(demands) == 170
    assert len(consumers) == 28
    assert min(cluster_sizes(demands, "peak").values()) >= 1
