"""What a log line means: which size, which times, whose job it is, and what happens where something is missing.

Nothing is guessed silently: each assumption and each job left out is counted in the `ReadingNotes`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from string import Formatter
from typing import Annotated

from leasehold.configuration.declaration import Choice, Table, Whole
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix, LeaseTypeDraws
from leasehold.simulation.workload.log_record import ID_FIELDS, UNKNOWN, LogRecord, ReadingNotes
from leasehold.simulation.workload.streams import check_number

SIZES = ("requested", "allocated")
OVERRUNS = ("raise", "kill")


@dataclass(frozen=True, slots=True)
class LogInterpretation:
    """How a line becomes a job.

    A job without requested time asked for exactly what it needed; one whose run time was rounded to zero ran
    for a millisecond; one without run time or processors never ran and is left out.
    Raises UnknownName and InvalidField for settings that are none.
    """

    size: Annotated[
        str,
        Choice(
            "number of processors of a job",
            more=": the `requested` or the `allocated` one; the other one if the log lacks it",
            of=SIZES,
        ),
    ] = "requested"
    overrun: Annotated[
        str,
        Choice(
            "treatment of a job that ran longer than requested",
            more=". `raise`: its requested time is set to its run time, because its cluster let it run;"
            " `kill`: it ends at its requested time",
            of=OVERRUNS,
        ),
    ] = "raise"
    memory_mib: Annotated[int, Whole("memory of each VM if the log has none, in MiB")] = 1024

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise UnknownName("size", self.size, SIZES)
        if self.overrun not in OVERRUNS:
            raise UnknownName("overrun", self.overrun, OVERRUNS)
        check_number("memory_mib", self.memory_mib, 1)

    def job(self, record: LogRecord, notes: ReadingNotes) -> WorkloadJob | None:
        """Return the job of a line, without site and lease type; None if it cannot have one."""
        if record.run_ms < 0:
            notes.skip("were left out: no run time")
            return None
        vms = self._vms(record, notes)
        if vms <= 0:
            notes.skip("were left out: no number of processors")
            return None
        requested_ms, actual_ms = self._times(record, notes)
        return WorkloadJob(
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
            notes.assume("give only one of requested and allocated processors; that one is used")
            return other
        return wanted

    def _memory_mib(self, record: LogRecord, notes: ReadingNotes) -> int:
        if record.memory_mib > 0:
            return record.memory_mib
        notes.assume("do not state the memory they requested; the default of the reading is used")
        return self.memory_mib

    def _times(self, record: LogRecord, notes: ReadingNotes) -> tuple[int, int]:
        """Return requested and actual time; the second is longer only for a job that is to be killed."""
        actual_ms, requested_ms = record.run_ms, record.requested_ms
        if actual_ms == 0:
            notes.assume("ran for 0 s in the log; they run for 1 ms")
            actual_ms = 1
        if requested_ms <= 0:
            notes.assume("do not state the time they requested; their run time is used")
            return actual_ms, actual_ms
        if actual_ms <= requested_ms:
            return requested_ms, actual_ms
        if self.overrun == "kill":
            notes.assume("ran longer than they had requested; they are ended at their requested time")
            return requested_ms, actual_ms
        notes.assume("ran longer than they had requested; their run time is used as their request")
        return actual_ms, actual_ms


READING = Table(LogInterpretation, "Meaning of the numbers in a line of a log.")


_UNKNOWN_NAME = "unknown"


@dataclass(frozen=True, slots=True)
class PlacingRule:
    """The jobs that agree with ``where`` belong to ``site``; without a site they are external.

    ``where``     field -> values; a job agrees if each field has one of its values: ``{"group": [2, 5]}``
    ``site``      home cluster, None for external; may name fields: ``"lcg-{partition}"``
    ``consumer``  on whose account; may name fields: ``"{group}"``
    ``mix``       lease types of external jobs

    A field that the log leaves unknown (-1) is written "unknown" in a name.
    Raises UnknownName for a field that cannot be split by, InvalidField for a broken name or a value that is
    no list.
    """

    where: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    site: str | None = None
    consumer: str = "{user}"
    mix: LeaseMix = EVEN_MIX

    def __post_init__(self) -> None:
        for name, values in self.where.items():
            _check_field("where", name)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise InvalidField(f"where.{name}", values, f"a list, as in [{values}]")
        for text in (self.site or "", self.consumer):
            for name in _fields_in(text):
                _check_field(text, name)


class Split:
    """Places the jobs of one stream by the first rule that they agree with."""

    def __init__(self, rules: Sequence[PlacingRule], seed: int, stream: str) -> None:
        self._placings = [_Placing(rule) for rule in rules]
        self._types = LeaseTypeDraws(seed, stream)

    def place(self, record: LogRecord, job: WorkloadJob) -> bool:
        """Give the job its site, consumer and type; False if no rule is about it."""
        for placing in self._placings:
            if placing.is_about(record):
                job.consumer = placing.consumer(record)
                if placing.site is None:
                    self._types.assign(job, placing.mix)
                else:
                    job.site = placing.site(record)
                return True
        return False


def logged_jobs(
    records: Iterator[LogRecord], interpretation: LogInterpretation, split: Split, notes: ReadingNotes
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a log, read and placed; those that no rule is about are left out and counted."""
    for record in records:
        job = interpretation.job(record, notes)
        if job is None:
            continue
        if split.place(record, job):
            yield job
        else:
            notes.skip("were left out: no rule of the split is about them")


class _Placing:
    """One rule, made ready to be asked a million times."""

    def __init__(self, rule: PlacingRule) -> None:
        wanted = {name: frozenset(map(str, values)) for name, values in rule.where.items()}
        self._conditions = [(attrgetter(name), values) for name, values in wanted.items()]
        self.site = None if rule.site is None else _filled(rule.site)
        self.consumer = _filled(rule.consumer)
        self.mix = rule.mix

    def is_about(self, record: LogRecord) -> bool:
        for value_of, values in self._conditions:  # noqa: SIM110  # all() costs a generator for every job
            if value_of(record) not in values:
                return False
        return True


def _filled(text: str) -> Callable[[LogRecord], str]:
    """Return what writes a name such as ``"lcg-{partition}"`` for a record, each distinct name once."""
    names = _fields_in(text)
    if not names:
        plain = text.format()
        return lambda _record: plain
    key_of = attrgetter(*names)
    known: dict[object, str] = {}

    def fill(record: LogRecord) -> str:
        key = key_of(record)
        if key not in known:
            values = {name: getattr(record, name) for name in names}
            named = {name: _UNKNOWN_NAME if value == UNKNOWN else value for name, value in values.items()}
            known[key] = text.format(**named)
        return known[key]

    return fill


def _fields_in(text: str) -> list[str]:
    try:
        return [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError:
        raise InvalidField("name", text, "text in which braces enclose a field, as in {group}") from None


def _check_field(place: str, name: str) -> None:
    if name not in ID_FIELDS:
        raise UnknownName(f"field in {place!r}", name, ID_FIELDS)
