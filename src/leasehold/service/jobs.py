"""Jobs of a live gateway: submitted, looked at, explained, and their results; the nodes and images for them.

For an explanation nodes are judged by kind, and grouped by what they answer: a site may have ten thousand that are
alike. Nothing is changed by it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

from leasehold.jobs.events import Turn
from leasehold.jobs.job import JobRequest, Place, site_of
from leasehold.matching.choice import Physical
from leasehold.matching.images import Recipe
from leasehold.matching.needs import Job
from leasehold.matching.nodes import EvaluationTime, Network, judge, judge_machine
from leasehold.matching.verdict import Feasibility, Verdict, Why, never
from leasehold.service.commands import CancelJob, SubmitJob
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.nodes import Kind, facts_of, first_of, node_of
from leasehold.service.engine_thread import Clock, EngineThread
from leasehold.service.errors import NoSuchJob
from leasehold.service.store.filters import JobFilter
from leasehold.service.store.rows import AttemptRow, ImageRow, NodeRow, OutputFile, StoredJob
from leasehold.service.store.store import Store

NOT_ASKED = "its peer is asked for nothing, or by a shorter way"
OWN_FIRST = "one's own nodes can run it, and come first"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a node says to a job: whether it could run there as the node is, or in a machine on it.

    ``as_node, as_host``  None where the node is not for that
    ``problem``           why nothing can run there now, "" for nothing
    """

    problem: str
    as_node: Verdict | None
    as_host: Verdict | None


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of a site that say the same: the first few by name, and how many there are."""

    site: str
    nodes: tuple[str, ...]
    count: int
    says: Verdicts


@dataclass(frozen=True, slots=True)
class Chosen:
    """Where a job would begin, or a copy of it.

    ``image``   that its machines would have, "" where it runs on nodes as they are, or it is not there yet
    ``builds``  the packages of the image that would be built first, with their versions
    """

    site: str
    nodes: tuple[str, ...]
    why: Why
    image: str = ""
    builds: tuple[tuple[str, str], ...] = ()


def verdicts(engine: Engine, job: Job, own: Feasibility = Feasibility.FIT) -> tuple[NodeGroup, ...]:
    """Say what all nodes say to a job now; and of those of peers, why they are not considered where they are not.

    ``own``  the best that one's own sites answer as a whole, as `answer_of_own`
    """
    moment = EvaluationTime(engine.now_ms, engine.setup.settings.fresh_for_ms)
    with_image = engine.jobs.scheduler.image_places(job.needs.software)
    groups = grouped(engine.jobs.nodes.kinds(engine.now_ms), job, engine.setup.network, moment, with_image)
    turns = engine.jobs.turns
    if not turns:
        return groups
    best = min(own, _best_answer([group for group in groups if group.site not in turns], job.needs.nodes))
    why_not = {Turn.NEVER: NOT_ASKED}
    if best >= Feasibility.WAIT:
        why_not[Turn.NONE_CAN] = OWN_FIRST
    if best >= Feasibility.FIT:
        why_not[Turn.NONE_CAN_NOW] = OWN_FIRST
    considered = (_considered(group, why_not.get(turns.get(group.site, Turn.FIRST), "")) for group in groups)
    return tuple(sorted(considered, key=_rank))


def answer_of_own(engine: Engine, asked: JobRequest) -> Feasibility:
    """Say what one's own sites answer to a job as a whole, beyond what each node says: are they reliable enough?"""
    if asked.reliability is None or not engine.jobs.turns:
        return Feasibility.FIT
    return engine.jobs.scheduler.answer_of_first(asked, engine.now_ms)


def _best_answer(groups: Iterable[NodeGroup], nodes: int) -> int:
    """Give the best that so many nodes of one site answer; -1: nothing can run on so many now."""
    counts = Counter[tuple[str, int]]()
    for group in groups:
        counts.update({(group.site, answer): group.count for answer in range(_answer(group) + 1)})
    return max((answer for (_, answer), count in counts.items() if count >= nodes), default=-1)


def _considered(group: NodeGroup, why_not: str) -> NodeGroup:
    """Say of nodes why they are not considered; what is wrong with them comes first."""
    if not why_not or group.says.problem:
        return group
    return replace(group, says=replace(group.says, problem=why_not))


def grouped(
    kinds: Iterable[Kind], job: Job, network: Network, moment: EvaluationTime, with_image: Container[str] = ()
) -> tuple[NodeGroup, ...]:
    """Give the nodes that say the same together; those that would do first, then the many before the few.

    ``with_image``  the sites whose machines can have the software of the job
    """
    judged: dict[tuple[object, ...], Verdicts] = {}
    alike: dict[tuple[str, Verdicts], list[Kind]] = {}
    for kind in kinds:
        # When it was seen counts only in so far as it is too long ago.
        facts = facts_of(kind.row), kind.row.seen_ms >= moment.oldest_ms
        if facts not in judged:
            judged[facts] = _verdicts_of(kind.row, job, network, moment, with_image)
        alike.setdefault((kind.row.site, judged[facts]), []).append(kind)
    return tuple(sorted((_group(*which, few) for which, few in alike.items()), key=_rank))


def _verdicts_of(
    row: NodeRow, job: Job, network: Network, moment: EvaluationTime, with_image: Container[str]
) -> Verdicts:
    node = node_of(row)
    able = node.capabilities
    transfer_ms = network.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s)
    as_node = judge(job, node, transfer_ms, moment) if row.runs else None
    as_host = None
    if row.is_host:
        is_there = row.site in with_image
        as_host = judge_machine(job, node, transfer_ms, moment) if is_there else never(Why.NO_IMAGE)
    return Verdicts(row.problem, as_node, as_host)


def _group(site: str, says: Verdicts, kinds: Iterable[Kind]) -> NodeGroup:
    listed = list(kinds)
    names = first_of(chain.from_iterable(kind.nodes for kind in listed))
    return NodeGroup(site, names, sum(kind.count for kind in listed), says)


def _rank(group: NodeGroup) -> tuple[int, int, str, tuple[str, ...]]:
    return -_answer(group), -group.count, group.site, group.nodes


def _answer(group: NodeGroup) -> int:
    """Give the best that nodes answer; -1: nothing can run there now."""
    says = group.says
    answers = [] if says.problem else [match.answer for match in (says.as_node, says.as_host) if match]
    return max(answers, default=-1)


def chosen_at(place: Place) -> Chosen:
    """Give a place as it is told."""
    if isinstance(place, Physical):
        nodes = tuple(edge.node for edge in place.nodes)
        return Chosen(_site_of(nodes), nodes, place.why)
    hosts = tuple(edge.node for edge in place.hosts)
    if isinstance(place.image, Recipe):
        return Chosen(_site_of(hosts), hosts, place.why, builds=tuple(sorted(place.image.packages)))
    return Chosen(_site_of(hosts), hosts, place.why, place.image.name)


def _site_of(nodes: tuple[str, ...]) -> str:
    return site_of(nodes[0])


NODES_AT_ONCE = 500
"""How many nodes are read from the store at a time."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job, from the attempt that counts.

    ``error``     what its command wrote to its standard error, where that is kept apart
    ``is_whole``  whether ``output`` and ``error`` are all that its command wrote
    ``is_kept``   whether the store still has it: old output, and output beyond its consumer's quota, is deleted
    """

    job_id: int
    attempt: int
    exit_status: int | None
    output: str
    is_whole: bool
    is_kept: bool = True
    error: str = ""
    files: tuple[OutputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class JobLog:
    """What the command of a job has written so far, in its newest attempt that has begun (0: none has)."""

    attempt: int
    output: str
    error: str
    is_whole: bool
    is_over: bool


ReadOutput = Callable[[int, str], Awaitable[Output]]
"""Gives what the command of a lease has written at a site so far; raises ConsoleElsewhere, Unavailable."""


class Jobs:
    """The jobs of one gateway."""

    def __init__(self, engine: EngineThread, store: Store, clock: Clock, read_output: ReadOutput) -> None:
        self._read_output = read_output
        self._engine = engine
        self._store = store
        self._clock = clock

    async def submit(self, command: SubmitJob) -> tuple[StoredJob, bool]:
        """Take a job in; True with it if it is new, False if it came before under the same key.

        It is given as this decision left it, before its machines can have reported.

        Raises InvalidField, TooManyOpen, IdempotencyConflict.
        """
        return cast("tuple[StoredJob, bool]", await self._engine.do(command))

    async def cancel(self, job_id: int) -> StoredJob:
        """Take a job back; one that is over stays as it is. Raises NoSuchJob."""
        return cast("StoredJob", await self._engine.do(CancelJob(job_id)))

    async def job(self, job_id: int) -> StoredJob:
        """Look at one, with its attempts in their order; raises NoSuchJob."""

        def read() -> StoredJob:
            row = self._store.job(job_id)
            if row is None:
                raise NoSuchJob(job_id)
            return row, self._store.attempts([job_id])

        return await asyncio.to_thread(read)

    async def jobs(self, which: JobFilter, limit: int, before_id: int | None = None) -> list[StoredJob]:
        """The newest jobs first, ``limit`` of them; ``before_id`` continues after a page."""

        def read() -> list[StoredJob]:
            rows = self._store.jobs(which, limit, before_id)
            attempts: dict[int, list[AttemptRow]] = {row.record.id: [] for row in rows}
            for attempt in self._store.attempts(list(attempts)):
                attempts[attempt.job_id].append(attempt)
            return [(row, attempts[row.record.id]) for row in rows]

        return await asyncio.to_thread(read)

    async def nodes(
        self,
        after: str = "",
        limit: int = NODES_AT_ONCE,
        site: str | None = None,
        is_wanted: Callable[[NodeRow], bool] = lambda _: True,
    ) -> list[NodeRow]:
        """The next nodes by name as they were last seen, of those that are wanted; ``limit`` of them."""

        def read() -> list[NodeRow]:
            found: list[NodeRow] = []
            last = after
            while len(found) < limit:
                rows = self._store.nodes_after(last, NODES_AT_ONCE, site)
                found += [row for row in rows if is_wanted(row)]
                if len(rows) < NODES_AT_ONCE:
                    break
                last = rows[-1].name
            return found[:limit]

        return await asyncio.to_thread(read)

    async def images(self) -> list[ImageRow]:
        """All images, and those that are being built or could not be, by name and site."""
        return await asyncio.to_thread(self._store.images)

    async def result(self, job_id: int) -> JobResult | None:
        """Give what came of a job, always the same; None while there is nothing. Raises NoSuchJob."""

        def read() -> JobResult | None:
            row = self._store.job(job_id)
            if row is None:
                raise NoSuchJob(job_id)
            if not row.record.delivered:
                return None
            wrote = self._store.output(job_id, row.record.delivered)
            known = job_id, row.record.delivered, row.exit_status
            if wrote is None:
                return JobResult(*known, "", is_whole=False, is_kept=False)
            return JobResult(*known, wrote.text, bool(wrote.is_whole), error=wrote.error, files=wrote.files)

        return await asyncio.to_thread(read)

    async def log(self, job_id: int) -> JobLog:
        """Give what the command of a job has written so far, from the machines themselves while it runs.

        Raises NoSuchJob, ConsoleElsewhere, Unavailable.
        """
        row, attempts = await self.job(job_id)
        result = await self.result(job_id)
        is_over = row.record.state.is_final
        if result is not None:
            return JobLog(result.attempt, result.output, result.error, result.is_whole, is_over)
        begun = [one for one in attempts if one.lease_id is not None and one.attempt.started_ms >= 0]
        if not begun:
            return JobLog(0, "", "", is_whole=True, is_over=is_over)
        newest = max(begun, key=lambda one: (one.attempt.state.is_open, one.attempt.number))
        assert newest.lease_id is not None
        wrote = await self._read_output(newest.lease_id, newest.site)
        return JobLog(newest.attempt.number, wrote.text, wrote.error, wrote.is_whole, is_over)
