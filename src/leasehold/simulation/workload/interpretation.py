"""What a log line means: which size, which times, whose job it is, and what happens where something is missing.

Nothing is guessed silently: each assumption and each job left out is counted in the `ReadingNotes`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Annotated

import numpy as np
import numpy.typing as npt

from leasehold.configuration.declaration import Choice, Table, Whole
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import NOT_CANCELLED, WorkloadJob
from leasehold.simulation.workload.job_block import AS_STREAM, NO_DEADLINE, NO_SITE, JobBlock, LinesRead, OfStream
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix, LeaseTypeDraws
from leasehold.simulation.workload.log_columns import Flags, Ints, LogColumns, Machine, Names, RecordBlock, RecordBlocks
from leasehold.simulation.workload.log_record import ID_FIELDS, NEVER_BEGAN, PARTIAL, UNKNOWN, LogFormat, ReadingNotes
from leasehold.simulation.workload.log_table import TableColumns
from leasehold.simulation.workload.streams import check_number

SIZES = ("requested", "allocated")
PROCESSOR, NODE = VMS = ("processor", "node")
OVERRUNS = ("raise", "kill")


@dataclass(frozen=True, slots=True)
class LogInterpretation:
    """How a line becomes a job.

    A job without requested time asked for exactly what it needed; one whose run time was rounded to zero ran
    for a millisecond; one without run time or processors never ran and is left out, and so is one that was cancelled
    before it began.
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
    vm: Annotated[
        str,
        Choice(
            "what a VM of a job is: one processor, or its part of one node, with cores, memory and GPUs",
            more='; the latter for logs that state nodes (Parquet) and clusters with `plan = "nodes"`',
            of=VMS,
        ),
    ] = PROCESSOR

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise UnknownName("size", self.size, SIZES)
        if self.overrun not in OVERRUNS:
            raise UnknownName("overrun", self.overrun, OVERRUNS)
        if self.vm not in VMS:
            raise UnknownName("vm", self.vm, VMS)
        check_number("memory_mib", self.memory_mib, 1)

    def vms(self, records: RecordBlock) -> tuple[Ints, Flags]:
        """Return the processors of each job, and where only one of both numbers of processors is known."""
        wanted, other = records.requested_vms, records.allocated_vms
        if self.size == "allocated":
            wanted, other = other, wanted
        only_other = (wanted <= 0) & (other > 0)
        return np.where(only_other, other, wanted), only_other


def _on_nodes(records: RecordBlock, processors: Ints, memory_mib: Ints, names: Names) -> tuple[Ints, Ints, Ints]:
    """Return the VMs of each job, one for each node, what each needs, as a code, and its memory.

    What the log states of a whole job is spread evenly over its nodes, and rounded up: to whole GPUs from one on. A job
    that does not state its nodes has one.
    """
    assert records.nodes is not None
    assert records.gpu_milli is not None
    assert records.gpu_model is not None
    nodes = np.maximum(records.nodes, 1)
    cores = -(-np.maximum(processors, 1) // nodes)
    gpus = -(-np.maximum(records.gpu_milli, 0) // nodes)
    gpus = np.where(gpus > _GPU, -(-gpus // _GPU) * _GPU, gpus)
    each = zip(cores.tolist(), records.gpu_model.tolist(), gpus.tolist(), strict=True)
    codes = [names.machine_code(Machine(core, model if gpu else "", gpu)) for core, model, gpu in each]
    return nodes, np.array(codes, np.int64), memory_mib * cores


_GPU = 1_000  # thousandths

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

    def fields(self) -> set[str]:
        """Return the fields of the log that it looks at."""
        return {*self.where, *_fields_in(self.site or ""), *_fields_in(self.consumer)}


_FINDINGS = (
    (True, PARTIAL),
    (True, NEVER_BEGAN),
    (False, "were cancelled before they began; they are submitted, and cancelled after the time that they waited"),
    (True, "were left out: no run time"),
    (False, "give only one of requested and allocated processors; that one is used"),
    (True, "were left out: no number of processors"),
    (False, "ran for 0 s in the log; they run for 1 ms"),
    (False, "do not state the time they requested; their run time is used"),
    (False, "ran longer than they had requested; they are ended at their requested time"),
    (False, "ran longer than they had requested; their run time is used as their request"),
    (False, "do not state the memory they requested; the default of the reading is used"),
    (True, "were left out: no rule of the split is about them"),
)
"""What may be found about a line, and whether it is left out for it."""


@dataclass(frozen=True, slots=True)
class LoggedStream:
    """A log, what its lines mean, and the rules that place its jobs, of which the first that fits one counts.

    ``log_format``        None for a log that is a table
    ``replay_cancelled``  whether jobs that were cancelled before they began are jobs, where it is known when they were
                          and for how long they would have run at most
    """

    path: Path
    log_format: LogFormat | None
    rules: Sequence[PlacingRule]
    reading: LogInterpretation = field(default_factory=LogInterpretation)
    seed: int = 1
    replay_cancelled: bool = False


def logged_blocks(stream: LoggedStream, notes: ReadingNotes, names: Names) -> Iterator[JobBlock]:
    """Yield the jobs of a log, read and placed; those that no rule is about are left out.

    Types and deadlines come from random streams named after the source of the notes. A block may be empty; what its
    lines have to be noted for counts once `JobBlock.note` is called.
    """
    fields = {name for rule in stream.rules for name in rule.fields()}
    log: RecordBlocks = (
        TableColumns(stream.path, notes, sorted(fields))
        if stream.log_format is None
        else LogColumns(stream.path, stream.log_format, notes, sorted(fields))
    )
    split = _Split(stream.rules, LeaseTypeDraws(stream.seed, notes.source), log.names, names)
    of = (OfStream(notes.source),)
    for records in log.blocks():
        findings, block = _interpreted(records, stream, split)
        block.streams, block.lines = of, LinesRead(notes, findings, _FINDINGS)
        yield block


def logged_jobs(stream: LoggedStream, notes: ReadingNotes) -> Iterator[WorkloadJob]:
    """Yield the jobs of `logged_blocks` one by one."""
    for block in logged_blocks(stream, notes, Names()):
        yield from block.jobs()


def _interpreted(
    records: RecordBlock, stream: LoggedStream, split: "_Split"
) -> tuple[npt.NDArray[np.uint16], JobBlock]:
    """Return what was found about the lines, and the jobs of those that are not left out."""
    reading = stream.reading
    vms, has_one_size = reading.vms(records)
    has_no_vms, machine = vms <= 0, np.full(len(records), AS_STREAM)
    has_no_time = records.requested_ms <= 0
    is_replayed = records.never_began & (records.wait_ms >= 0) & ~has_no_time & stream.replay_cancelled
    run_ms = np.where(is_replayed, records.requested_ms, records.run_ms)
    actual_ms = np.maximum(run_ms, 1)
    overran = ~has_no_time & (actual_ms > records.requested_ms)
    is_raised = overran if reading.overrun == "raise" else np.zeros_like(overran)
    has_no_memory = records.memory_mib <= 0
    rule = split.rules_of(records)
    found = (
        records.partial,
        records.never_began & ~is_replayed,
        is_replayed,
        run_ms < 0,
        has_one_size,
        has_no_vms,
        run_ms == 0,
        has_no_time,
        overran & ~is_raised,
        is_raised,
        has_no_memory,
        rule < 0,
    )
    findings = np.zeros(len(records), np.uint16)
    left = np.ones(len(records), np.bool_)
    for bit, ((is_left_out, _), where) in enumerate(zip(_FINDINGS, found, strict=True)):
        if where.any():
            findings |= ((where & left) << bit).astype(np.uint16)
            if is_left_out:
                left &= ~where
    rows = slice(None) if left.all() else np.flatnonzero(left)
    kept = records.taken(rows)
    memory_mib = np.where(has_no_memory, reading.memory_mib, records.memory_mib)
    if reading.vm == NODE:
        vms, machine, memory_mib = _on_nodes(records, vms, memory_mib, split.names)
    requested_ms = np.where(has_no_time | is_raised, actual_ms, records.requested_ms)[rows]
    placed = split.placed(kept, rule[rows], requested_ms)
    none = np.zeros(len(kept), np.int64)
    return findings, JobBlock(
        submit_ms=kept.submit_ms,
        vms=vms[rows],
        requested_ms=requested_ms,
        actual_ms=actual_ms[rows],
        memory_mib=memory_mib[rows],
        source_id=kept.source_id,
        is_coallocation=np.zeros(len(kept), np.bool_),
        stream=none,
        number=none,
        line=np.arange(1, len(records) + 1)[rows],
        cancelled_after_ms=np.where(is_replayed, records.wait_ms, NOT_CANCELLED)[rows],
        machine=machine[rows],
        names=split.names,
        streams=(),
        lines=None,
        **placed,
    )


class _Split:
    """Places the jobs of one stream by the first rule that they agree with."""

    def __init__(
        self, rules: Sequence[PlacingRule], draws: LeaseTypeDraws, of_fields: Mapping[str, Names], names: Names
    ) -> None:
        self.names = names
        self._placings = [_Placing(rule, of_fields, names) for rule in rules]
        self._draws = draws

    def rules_of(self, records: RecordBlock) -> Ints:
        """Return the rule that counts for each line; -1 if none is about it."""
        rule = np.full(len(records), -1)
        for number, placing in reversed([*enumerate(self._placings)]):
            rule[placing.is_about(records)] = number
        return rule

    def placed(self, records: RecordBlock, rule: Ints, requested_ms: Ints) -> dict[str, Ints]:
        """Return the columns of a `JobBlock` that say whose the jobs are and of which type."""
        size = len(records)
        site, consumer = np.full(size, NO_SITE), np.zeros(size, np.int64)
        lease_type, deadline_ms = np.full(size, int(LeaseType.NON_PREEMPTABLE)), np.full(size, NO_DEADLINE)
        is_external = np.isin(rule, [number for number, one in enumerate(self._placings) if one.site is None])
        places, slacks = np.zeros(size), np.zeros(size)
        places[is_external], slacks[is_external] = self._draws.draw(int(np.count_nonzero(is_external)))
        for number, placing in enumerate(self._placings):
            rows = np.flatnonzero(rule == number)
            if not len(rows):
                continue
            one = records if len(rows) == size else records.taken(rows)
            consumer[rows] = placing.consumer(one)
            if placing.site is not None:
                site[rows] = placing.site(one)
                continue
            lease_type[rows] = types = placing.mix.picks(places[rows])
            low, high = placing.mix.slack
            slack = low + (high - low) * slacks[rows]
            later_ms = np.ceil(requested_ms[rows] * (1.0 + slack)).astype(np.int64)
            deadline_ms[rows] = np.where(types == LeaseType.MIGRATABLE, one.submit_ms + later_ms, NO_DEADLINE)
        return {"site": site, "consumer": consumer, "lease_type": lease_type, "deadline_ms": deadline_ms}


class _Placing:
    """One rule, made ready to be asked about blocks."""

    def __init__(self, rule: PlacingRule, of_fields: Mapping[str, Names], names: Names) -> None:
        wanted = {name: frozenset(map(str, values)) for name, values in rule.where.items()}
        self._conditions = [(name, _ForEach(of_fields[name], values.__contains__)) for name, values in wanted.items()]
        self.site = None if rule.site is None else _Filled(rule.site, of_fields, names)
        self.consumer = _Filled(rule.consumer, of_fields, names)
        self.mix = rule.mix

    def is_about(self, records: RecordBlock) -> Flags:
        """Say about which lines it is."""
        agree = np.ones(len(records), np.bool_)
        for name, agrees in self._conditions:
            agree &= agrees(records.fields[name]).astype(np.bool_)
        return agree


class _ForEach:
    """A number for each text of a field, found once."""

    def __init__(self, names: Names, number_of: Callable[[str], int]) -> None:
        self._names, self._number_of = names, number_of
        self._numbers = np.zeros(0, np.int64)

    def __call__(self, codes: Ints) -> Ints:
        new = self._names.texts[len(self._numbers) :]
        if new:
            self._numbers = np.concatenate((self._numbers, [*map(self._number_of, new)]))
        return self._numbers[codes]


class _Filled:
    """Writes a name such as ``"lcg-{partition}"`` for all lines, as codes of ``names``, each distinct name once."""

    def __init__(self, text: str, of_fields: Mapping[str, Names], names: Names) -> None:
        self._text, self._names = text, names
        self._of_fields = {name: of_fields[name] for name in _fields_in(text)}
        self._of_first = None
        if len(self._of_fields) == 1:
            ((name, texts),) = self._of_fields.items()
            self._of_first = _ForEach(texts, lambda value: self._code({name: value}))

    def __call__(self, records: RecordBlock) -> Ints:
        columns = [records.fields[name] for name in self._of_fields]
        if self._of_first is not None:
            return self._of_first(columns[0])
        if not columns:
            return np.full(len(records), self._code({}))
        different = np.zeros(len(records), np.int64)
        for names, column in zip(self._of_fields.values(), columns, strict=True):
            _, rows, different = np.unique(
                different * len(names.texts) + column, return_index=True, return_inverse=True
            )
        codes = [
            self._code({name: of.texts[records.fields[name][row]] for name, of in self._of_fields.items()})
            for row in rows
        ]
        return np.array(codes, np.int64)[different]

    def _code(self, values: Mapping[str, str]) -> int:
        named = {name: _UNKNOWN_NAME if value == UNKNOWN else value for name, value in values.items()}
        return self._names.code(self._text.format(**named))


def _fields_in(text: str) -> list[str]:
    try:
        return [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError:
        raise InvalidField("name", text, "text in which braces enclose a field, as in {group}") from None


def _check_field(place: str, name: str) -> None:
    if name not in ID_FIELDS:
        raise UnknownName(f"field in {place!r}", name, ID_FIELDS)
