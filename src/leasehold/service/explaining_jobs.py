"""What would become of a job that came now, and what each node says to it. Nothing is changed by asking."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from leasehold.jobs.job import JobRequest, JobState, Place
from leasehold.jobs.why import JobReason
from leasehold.matching.choice import Physical
from leasehold.matching.images import Recipe
from leasehold.matching.network import Network
from leasehold.matching.satisfying import Moment, judge, judge_machine
from leasehold.matching.verdict import Verdict, Why
from leasehold.service.commands import SubmitJob
from leasehold.service.engine.engine import Engine
from leasehold.service.engine.nodebook import node_of
from leasehold.service.store.rows import NodeRow


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a node says to a job: whether it could run there as the node is, or in a machine on it.

    ``as_node, as_host``  None where the node is not for that
    ``problem``           why nothing can run there now, "" for nothing
    """

    node: str
    problem: str
    as_node: Verdict | None
    as_host: Verdict | None


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


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of a job; ``what`` is lacking, where there is something.

    ``state``   running, building, waiting or refused
    ``surest``  how sure it is to be done by its deadline, None where nothing was asked
    """

    state: JobState
    reason: JobReason
    what: str
    chosen: tuple[Chosen, ...]
    surest: float | None
    candidates: tuple[Candidate, ...]


def prospect(engine: Engine, command: SubmitJob, now_ms: int) -> Prospect:
    """Say what would become of a job; raises InvalidField for one that cannot be."""
    book = engine.handlers.jobs
    request = book.request(command, now_ms)
    book.catch_up(now_ms)
    seen = book.desk.foresee(request, now_ms)
    moment = Moment(now_ms, engine.setup.settings.fresh_for_ms)
    nodes = (row for row in book.nodes.rows.values() if not book.nodes.is_gone(row, now_ms))
    says = _says(nodes, request, engine.setup.network, moment)
    chosen = tuple(_chosen(place) for place in seen.places)
    return Prospect(seen.state, seen.reason, seen.what, chosen, seen.surest, tuple(says))


def _says(
    rows: Iterable[NodeRow], request: JobRequest, network: Network, moment: Moment
) -> Iterator[Candidate]:
    job = request.job
    for row in sorted(rows, key=itemgetter("name")):
        node = node_of(row)
        able = node.capabilities
        transfer_ms = network.transfer_ms(job.needs.inputs, able.place, able.bytes_per_s)
        as_node = judge(job, node, transfer_ms, moment) if row["runs"] else None
        as_host = judge_machine(job, node, transfer_ms, moment) if row["is_host"] else None
        yield Candidate(row["name"], row["problem"], as_node, as_host)


def _chosen(place: Place) -> Chosen:
    if isinstance(place, Physical):
        nodes = tuple(edge.node for edge in place.nodes)
        return Chosen(_site_of(nodes), nodes, place.why)
    hosts = tuple(edge.node for edge in place.hosts)
    if isinstance(place.image, Recipe):
        return Chosen(_site_of(hosts), hosts, place.why, builds=tuple(sorted(place.image.packages)))
    return Chosen(_site_of(hosts), hosts, place.why, place.image.name)


def _site_of(nodes: tuple[str, ...]) -> str:
    return nodes[0].partition("/")[0]
