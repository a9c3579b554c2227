"""What the numbers of a log line mean: which size, which times, and what happens where they are missing.

Nothing is guessed silently: each assumption and each job left out is counted in the `ReadingNotes`.
"""

from dataclasses import dataclass
from typing import Annotated

from leasehold.configuration.declaration import Table
from leasehold.configuration.kinds import Choice, Whole
from leasehold.model.errors import UnknownName
from leasehold.simulation.workload.checks import check_number
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.log_record import LogRecord
from leasehold.simulation.workload.notes import ReadingNotes

SIZES = ("requested", "allocated")
OVERRUNS = ("raise", "kill")


@dataclass(frozen=True, slots=True)
class Interpretation:
    """How a line becomes a job.

    A job without requested time asked for exactly what it needed; one whose run time was rounded to zero ran
    for a millisecond; one without run time or processors never ran and is left out.
    Raises UnknownName and InvalidField for settings that are none.
    """

    size: Annotated[
        str,
        Choice(
            "which number of processors is a job's",
            more=": the `requested` or the `allocated` one; the other one where the log does not give this one",
            of=SIZES,
        ),
    ] = "requested"
    overrun: Annotated[
        str,
        Choice(
            "what becomes of a job that ran longer than it had asked",
            more=". `raise`: its request is taken to have been as long as its run, because its cluster let"
            " it run; `kill`: it ends at its requested time",
            of=OVERRUNS,
        ),
    ] = "raise"
    memory_mib: Annotated[int, Whole("memory of each VM where the log does not say, in MiB")] = 1024

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise UnknownName("size", self.size, SIZES)
        if self.overrun not in OVERRUNS:
            raise UnknownName("overrun", self.overrun, OVERRUNS)
        check_number("memory_mib", self.memory_mib, 1)

    def job(self, record: LogRecord, notes: ReadingNotes) -> Job | None:
        """Return the job of a line, without site and lease type; None if it cannot have one."""
        if record.run_ms < 0:
            notes.skip("were left out: no run time")
            return None
        vms = self._vms(record, notes)
        if vms <= 0:
            notes.skip("were left out: no number of processors")
            return None
        requested_ms, actual_ms = self._times(record, notes)
        return Job(
            record.submit_ms,
            vms,
            requested_ms,
            actual_ms,
            source_id=record.source_id,
            memory_mib=self._memory_mib(record, notes),
            source=notes.source,
        )

    def _vms(self, record: LogRecord, notes: ReadingNotes) -> int:
        wanted, other = record.requested_vms, record.allocated_vms
        if self.size == "allocated":
            wanted, other = other, wanted
        if wanted <= 0 < other:
            notes.assume("give only one of requested and allocated processors; that one was taken")
            return other
        return wanted

    def _memory_mib(self, record: LogRecord, notes: ReadingNotes) -> int:
        if record.memory_mib > 0:
            return record.memory_mib
        notes.assume("do not say how much memory they asked for; the default of the reading was taken")
        return self.memory_mib

    def _times(self, record: LogRecord, notes: ReadingNotes) -> tuple[int, int]:
        """Return requested and actual time; the second is longer only for a job that is to be killed."""
        actual_ms, requested_ms = record.run_ms, record.requested_ms
        if actual_ms == 0:
            notes.assume("ran for 0 s in the log; they run for 1 ms")
            actual_ms = 1
        if requested_ms <= 0:
            notes.assume("do not say what time they asked for; they ask for exactly what they need")
            return actual_ms, actual_ms
        if actual_ms <= requested_ms:
            return requested_ms, actual_ms
        if self.overrun == "kill":
            notes.assume("ran longer than they had asked; they are ended at their requested time")
            return requested_ms, actual_ms
        notes.assume("ran longer than they had asked; their request is taken to have been as long as their run")
        return actual_ms, actual_ms


READING = Table(Interpretation, "What the numbers of a line of a log mean.")
