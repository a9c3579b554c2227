"""Whose the jobs of a log are: rules that make them a cluster's own or external, with consumer and type."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from string import Formatter

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.workload.interpretation import Interpretation
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.lease_mix import EVEN_MIX, LeaseMix, LeaseTypeDraws
from leasehold.simulation.workload.log_record import ID_FIELDS, UNKNOWN, LogRecord
from leasehold.simulation.workload.notes import ReadingNotes

_UNKNOWN_NAME = "unknown"


@dataclass(frozen=True, slots=True)
class Rule:
    """The jobs that agree with ``where`` belong to ``site``, or to nobody here: then they are external.

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

    def __init__(self, rules: Sequence[Rule], seed: int, stream: str) -> None:
        self._placings = [_Placing(rule) for rule in rules]
        self._types = LeaseTypeDraws(seed, stream)

    def place(self, record: LogRecord, job: Job) -> bool:
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
    records: Iterator[LogRecord], interpretation: Interpretation, split: Split, notes: ReadingNotes
) -> Iterator[Job]:
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

    def __init__(self, rule: Rule) -> None:
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
