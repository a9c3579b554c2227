"""What must hold after every instant, whatever happened; each check raises InvariantBroken with its find."""

from collections import Counter
from collections.abc import Iterable

from leasehold.jobs.floor import Floor, Holder, site_of
from leasehold.jobs.job import NOT_YET, AttemptState, JobRecord, JobState
from leasehold.jobs.office import Office
from leasehold.model.errors import InvariantBroken


def check(office: Office) -> None:
    """Check the desk, and the records that the last instant has changed."""
    records = office.book.records
    for record in (*records.values(), *office.book.moved.values()):
        _stands_in_one_place(record, office)
        _delivers_once(record)
        for attempt in record.open_attempts:
            _is_of_one_site(record, attempt.nodes)
        _copies_run_apart(record)
        if record.state.is_final == (record.id in records):
            raise InvariantBroken(f"job {record.id} is {record.state} and {record.id in records=}")
    _promises_are_those_of_attempts(records.values(), office.floor)
    _nothing_is_promised_twice(office.floor)


def _stands_in_one_place(record: JobRecord, office: Office) -> None:
    """A job waits in the line, or waits for an image, or has attempts that are open, or is over."""
    where = {
        "the line": record.id in office.line,
        "images": record.id in office.images.waiting,
        "attempts": bool(record.open_attempts),
    }
    found = {place for place, is_there in where.items() if is_there}
    if found not in _STANDS_IN[record.state]:
        raise InvariantBroken(f"job {record.id} is {record.state}, and is found among {sorted(found)}")
    if "the line" in found and record.next_ms == NOT_YET:
        raise InvariantBroken(f"job {record.id} waits for nothing")


_STANDS_IN: dict[JobState, list[set[str]]] = {
    JobState.WAITING: [{"the line"}, {"attempts"}],
    JobState.BUILDING: [{"images"}],
    **{state: [set()] for state in JobState if state.is_final},
}
_STANDS_IN |= {state: [{"attempts"}] for state in JobState if state not in _STANDS_IN}


def _delivers_once(record: JobRecord) -> None:
    """At most one attempt succeeds; a result is that of the attempt which is said to have it."""
    done = [one.number for one in record.attempts if one.state is AttemptState.SUCCEEDED]
    if done != ([record.delivered] if record.state is JobState.COMPLETED else []):
        raise InvariantBroken(f"job {record.id} is {record.state}: {done} succeeded, {record.delivered=}")
    if record.delivered and not record.state.is_final:
        raise InvariantBroken(f"job {record.id} has a result and goes on")


def _is_of_one_site(record: JobRecord, nodes: tuple[str, ...]) -> None:
    sites = {site_of(node) for node in nodes}
    if len(sites) != 1 or len(set(nodes)) != record.request.job.needs.nodes:
        raise InvariantBroken(f"job {record.id} runs on {nodes}")


def _copies_run_apart(record: JobRecord) -> None:
    """No node has two copies of a job, and what is kept ready is elsewhere too."""
    counted = Counter(node for attempt in record.open_attempts for node in attempt.nodes)
    if any(count > 1 for count in counted.values()):
        raise InvariantBroken(f"job {record.id} has two copies on one node: {counted}")


def _promises_are_those_of_attempts(records: Iterable[JobRecord], floor: Floor) -> None:
    promised: set[tuple[str, Holder]] = set()
    for name, held in floor.held():
        promised.update((name, holder) for holder in held)
    expected = {
        (node, (record.id, attempt.number))
        for record in records
        for attempt in record.open_attempts
        for node in attempt.nodes
    }
    if promised != expected:
        raise InvariantBroken(f"promised and not open, or open and not promised: {promised ^ expected}")


def _nothing_is_promised_twice(floor: Floor) -> None:
    for name, _ in floor.held():
        total, promised = floor.total(name), floor.promised(name)
        if total is not None and not total.holds(promised) and name not in floor.shrunk:
            raise InvariantBroken(f"{name} has {total}, of which {promised} is promised")
