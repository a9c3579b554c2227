"""Jobs across gateways and sites with managers of their own: both ends of what they say to each other about jobs.

At the site, the gateway is told of nodes and images, of what can be built, and of nodes that offer themselves: what is
not as it was told, one message of each kind at a time, and the next when that has arrived. A gateway tells its peers in
the same way: of its own sites, and of those that it was told. So no more than these wait
while the line is cut, and what changes often is told as it is then. At the gateway that becomes news for the scheduler
of jobs, as if its own sites had been looked at. What the gateway wants built there is asked for once, in the step in
which that is noted; the site notes who waits for it, builds it as for a job of its own, and answers once. A peer does
the same, and asks on where the site is further away.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from heapq import nsmallest

from leasehold.gateway.gateway import Gateway
from leasehold.jobs.job import image_there, name_there, provider_of, site_of, site_there
from leasehold.jobs.offers import MOST_STANDING
from leasehold.matching.needs import Amounts
from leasehold.matching.software import Installed
from leasehold.model.errors import InvalidField
from leasehold.service.commands import GuestFiles, GuestOutput, Submit
from leasehold.service.drivers.bounds import one_line
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.attempts import AttemptStatus, shortened
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.image_reporter import ImageReporter, image_told, is_sound, name_told, software_told
from leasehold.service.engine.jobs import JobController
from leasehold.service.engine.message_log import MessageLog
from leasehold.service.engine.nodes import NOT_LISTED, SITE_CLOSED
from leasehold.service.engine.tasks import Build, FilesHeard, OutputHeard, Read, Send
from leasehold.service.errors import NoSuchSite
from leasehold.service.messages.about_jobs import (
    MOST_BYTES,
    MOST_OF_A_PEER,
    MOST_SITES,
    MOST_TOLD,
    MOST_WRITTEN_BYTES,
    BuildableTold,
    BuildTold,
    BuildWanted,
    CommandTold,
    FileSent,
    FilesSent,
    FilesWanted,
    ImagesTold,
    LookWanted,
    NodeOffered,
    NodesOffered,
    NodesTold,
    NodeTold,
    OutputTold,
    OutputWanted,
    SiteTold,
    SoftwareTold,
)
from leasehold.service.messages.endpoints import GATEWAY, asking, asking_peer
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import LeaseRow, NodeRow, OutputFile

_NOTHING = "the site has nothing of it"
ONLY_FOR_GATEWAYS = "images are built for the gateway of this site, and for peers"
UNSOUND = "the image was built, but its name cannot be told"
NOT_TOLD = "{} is not a site that was told with its nodes"


@dataclass(slots=True)
class _Listing:
    """What the gateway, or a peer, was told of nodes in the present listing.

    ``number``       of the listing, and of the last one where this ``is_begun`` not yet
    ``nodes``        what was told of each, and its software
    ``is_complete``  whether it was told of all
    ``sites``        of which sites a peer was told
    ``state``        all that what is told follows from, as it was when it was told last
    """

    number: int = 0
    is_begun: bool = False
    nodes: dict[str, tuple[NodeTold, Installed]] = field(default_factory=dict)
    is_complete: bool = False
    sites: tuple[SiteTold, ...] = ()
    state: object = None


class NodeReporter:
    """Tells one endpoint of nodes and images: what is not as it was told, once the last message has arrived."""

    def __init__(self, jobs: JobController, log: MessageLog, endpoint: str) -> None:
        """``endpoint`` is the one that is told."""
        self.endpoint = endpoint
        self._jobs = jobs
        self._log = log
        self._listing = _Listing()
        self._nodes_message = 0
        self._images = ImageReporter(jobs, log, endpoint)
        self._offers: dict[str, int] = {}
        """Until when the offers are valid that it was told of, by node."""
        self._offers_since_ms = 0
        """Nodes that were seen earlier cannot offer themselves: who is told believes that they have failed since."""
        self._offers_message = 0

    def tell_anew(self, now_ms: int, *, images: bool) -> None:
        """Tell all nodes once more: whoever is told believes that some have failed, or has not kept them.

        Offers follow when nodes are seen. ``images``: and tell all images, and what can be built: it has not kept them.
        """
        self._listing = _Listing(self._listing.number)
        self._offers.clear()
        self._offers_since_ms = now_ms
        if images:
            self._images.tell_anew()

    def tell(self, now_ms: int) -> None:
        """Tell what is not as it was told, unless the last of it is still on its way."""
        if not self._jobs.is_used:
            return
        if self._log.has_arrived(self.endpoint, self._nodes_message):
            self._tell_nodes(now_ms)
        if self._log.has_arrived(self.endpoint, self._offers_message):
            self._tell_offers(now_ms)
        with_images = self._with_images()
        if with_images is not None:
            self._images.tell(with_images, now_ms)

    def _tell_nodes(self, now_ms: int) -> None:
        listing, state = self._listing, self._state()
        if listing.is_complete and listing.state == state:
            return
        rows = self._rows()
        if not rows and not listing.nodes:
            return
        if not listing.is_begun:
            listing.number, listing.is_begun = max(now_ms, listing.number + 1), True
        self._jobs.catch_up(now_ms)
        message = _NodesMessage()
        for name, row in sorted(rows.items()):
            told = self._told(name, row)
            known = listing.nodes.get(name)
            if known is not None and known == (told, row.software):
                continue
            if not message.add(told, None if known is not None and known[1] == row.software else row.software):
                break
            listing.nodes[name] = (told, row.software)
        gone = sorted(listing.nodes.keys() - rows.keys())[:MOST_TOLD]
        for name in gone:
            del listing.nodes[name]
        listing.is_complete = not message.is_full and listing.nodes.keys() == rows.keys()
        listing.state = state
        told_nodes = NodesTold(
            listing=listing.number,
            software=tuple(message.software),
            nodes=tuple(message.nodes),
            gone=tuple(gone),
            complete=listing.is_complete,
            age_ms=_age_ms(rows.values(), now_ms),
            sites=self._sites(rows, now_ms),
        )
        listing.sites = told_nodes.sites
        self._nodes_message = self._log.send(self.endpoint, told_nodes.model_dump(mode="json"), now_ms)

    def _tell_offers(self, now_ms: int) -> None:
        """Pass on offers that stand here, of nodes that were told with the software that they have."""
        standing = self._jobs.scheduler.standing_offers(now_ms)
        self._offers = {name: until_ms for name, until_ms in self._offers.items() if standing.get(name) == until_ms}
        due = [row for name in standing.keys() - self._offers if (row := self._offering(name)) is not None]
        if not due:
            return
        self._jobs.catch_up(now_ms)
        offers = list[NodeOffered]()
        for row in sorted(due, key=lambda row: row.name)[:MOST_STANDING]:
            name, until_ms = self._called(row.name), standing[row.name]
            told = self._told(name, row)
            offers.append(NodeOffered(node=told, age_ms=max(0, now_ms - row.seen_ms), lasts_ms=until_ms - now_ms))
            self._listing.nodes[name] = (told, row.software)  # that is how it is known there from now on
            self._offers[row.name] = until_ms
        body = NodesOffered(offers=tuple(offers)).model_dump(mode="json")
        self._offers_message = self._log.send(self.endpoint, body, now_ms)

    def _offering(self, name: str) -> NodeRow | None:
        """Give a node that offers itself; None where it was not told as it is, or has to be seen first."""
        row = self._jobs.nodes.rows.get(name)
        known = self._listing.nodes.get(self._called(name))
        if row is None or row.problem or row.seen_ms < self._offers_since_ms:
            return None
        return row if known is not None and known[1] == row.software else None

    def _called(self, node: str) -> str:
        """Give the name by which a node is told."""
        raise NotImplementedError

    def _state(self) -> object:
        """Give all that what is told follows from: while it is the same, nothing is told."""
        raise NotImplementedError

    def _rows(self) -> dict[str, NodeRow]:
        """Give the nodes that are told, by the names under which they are."""
        raise NotImplementedError

    def _sites(self, rows: Mapping[str, NodeRow], now_ms: int) -> tuple[SiteTold, ...]:
        """Give the sites of these nodes, where there may be several."""
        raise NotImplementedError

    def _with_images(self) -> Mapping[str, str] | None:
        """Give the sites whose images are told, and by which names, "" for the only one; None while nobody can say."""
        raise NotImplementedError

    def _told(self, name: str, row: NodeRow) -> NodeTold:
        """Say of a node what can still be given there, by the plans of this site or gateway."""
        node = self._jobs.scheduler.node(row.name)
        free = Amounts(row.free_cores, row.free_memory_mib, row.free_disk_mib, row.free_gpus)
        if node is not None:
            free = node.free
        return NodeTold(
            name=name,
            cores=row.cores,
            memory_mib=row.memory_mib,
            disk_mib=row.disk_mib,
            free_cores=free.cores,
            free_memory_mib=free.memory_mib,
            free_disk_mib=free.disk_mib,
            cpu_mhz=row.cpu_mhz,
            bytes_per_s=row.bytes_per_s,
            gpu_model=row.gpu_model,
            gpus=row.gpus,
            gpu_shares=row.gpu_shares,
            free_gpus=free.gpus,
            takes_files=row.takes_files,
            is_host=row.is_host,
            runs=row.runs,
            problem=one_line(row.problem),
            fault=row.fault,
            software=-1,
        )


def _age_ms(rows: Iterable[NodeRow], now_ms: int) -> int:
    """How long ago nodes were looked at, that of them which was last."""
    return max(0, now_ms - max((row.seen_ms for row in rows), default=now_ms))


class PeerReporter(NodeReporter):
    """Tells a peer of the nodes that it may use here, and beyond, and of the images at the same sites."""

    def __init__(self, jobs: JobController, log: MessageLog, gateway: Gateway, peer: str) -> None:
        """``peer`` is its name."""
        super().__init__(jobs, log, asking(peer))
        self._gateway = gateway
        self._peer = peer

    def _may_use(self) -> Mapping[str, SiteTold]:
        return self._jobs.peer_sites.told_to(self._peer, self._jobs.nodes.sites())

    def _state(self) -> object:
        sites, closed = self._may_use(), self._closed()
        changes_of = self._jobs.nodes.changes_of
        return sites, {site for site in sites if provider_of(site) in closed}, [changes_of[site] for site in sites]

    def _closed(self) -> Collection[str]:
        """Sites that take nothing from it now."""
        is_closed = self._gateway.peering.terms[self._peer].max_vms == 0
        return {*map(provider_of, self._jobs.nodes.sites())} if is_closed else self._jobs.not_lending

    def _rows(self) -> dict[str, NodeRow]:
        rows = self._jobs.nodes.of_sites(sorted(self._may_use())[:MOST_SITES])
        there = {row.name: row for row in rows if row.problem != NOT_LISTED and is_sound(row.name)}
        return {name: there[name] for name in nsmallest(MOST_OF_A_PEER, there)}

    def _sites(self, rows: Mapping[str, NodeRow], now_ms: int) -> tuple[SiteTold, ...]:
        may_use = self._may_use()
        by_site: dict[str, list[NodeRow]] = {}
        for row in rows.values():
            by_site.setdefault(row.site, []).append(row)
        return tuple(
            may_use[site].model_copy(update={"age_ms": _age_ms(there, now_ms)}) for site, there in by_site.items()
        )

    def _called(self, node: str) -> str:
        return node

    def _offering(self, name: str) -> NodeRow | None:
        """Leave out nodes of sites that take nothing from it now."""
        row = super()._offering(name)
        return None if row is None or provider_of(row.site) in self._closed() else row

    def _with_images(self) -> Mapping[str, str] | None:
        """It believes nothing of sites that were not told with their nodes."""
        return {one.name: one.name for one in self._listing.sites} if self._listing.is_begun else None

    def _told(self, name: str, row: NodeRow) -> NodeTold:
        is_own, problem = row.site in self._gateway.sites, row.problem
        if problem and not is_own:
            problem = f"{row.site}: {problem}"
        if not problem and provider_of(row.site) in self._closed():
            problem = SITE_CLOSED
        return super()._told(name, row).model_copy(update={"problem": one_line(problem)})


class SiteReporter(NodeReporter):
    """Tells the gateway of the nodes and images here, where there is a gateway: once it has been heard of."""

    def __init__(self, jobs: JobController, log: MessageLog) -> None:
        super().__init__(jobs, log, GATEWAY)

    def _called(self, node: str) -> str:
        return name_there(node)

    def _with_images(self) -> Mapping[str, str]:
        return dict.fromkeys(self._jobs.images.own, "")

    # Nodes

    def _state(self) -> object:
        return self._jobs.nodes.changes

    def _rows(self) -> dict[str, NodeRow]:
        nodes = self._jobs.nodes
        named = ((name_there(row.name), row) for row in nodes.rows.values() if row.problem != NOT_LISTED)
        return {name: row for name, row in named if is_sound(name)}

    def _sites(self, rows: Mapping[str, NodeRow], now_ms: int) -> tuple[SiteTold, ...]:  # noqa: ARG002 - it has one
        return ()


class _NodesMessage:
    """Nodes that are told in one message, and their software, each list of it once."""

    def __init__(self) -> None:
        self.nodes: list[NodeTold] = []
        self.software: list[SoftwareTold] = []
        self.is_full = False
        self._numbers: dict[Installed, int] = {}
        self._size = 0

    def add(self, told: NodeTold, software: Installed | None) -> bool:
        """Add a node, and its software where that is not known; False where there is no room for it."""
        listed = None if software is None or software in self._numbers else software_told(software)
        size = len(told.model_dump_json()) + (0 if listed is None else _size(listed))
        if self.nodes and (self._size + size > MOST_BYTES or len(self.nodes) >= MOST_TOLD):
            self.is_full = True
            return False
        self._size += size
        number = -1
        if software is not None:
            if listed is not None:
                self._numbers[software] = len(self.software)
                self.software.append(listed)
            number = self._numbers[software]
        self.nodes.append(told.model_copy(update={"software": number}))
        return True


def _size(software: SoftwareTold) -> int:
    return len(json.dumps(software))


class RemoteJobs:
    """Both ends: who is told of nodes once it was heard of, and what either side takes in, and asks for."""

    def __init__(self, context: EngineContext, jobs: JobController, log: MessageLog) -> None:
        self._reporters: dict[str, NodeReporter] = {}
        """By the endpoint that is told."""
        self._core = context.core
        self._store: Reading = context.store
        self._jobs = jobs
        self._log = log
        self._asked: dict[tuple[str, int], int] = {}
        """The messages by which outputs and files were asked for, by their kind and lease: one at a time."""
        self._looks: dict[str, int] = {}
        """The messages by which looks were asked for, by site: one at a time."""
        self._asked_anew: set[str] = set()

    # At the gateway

    def nodes_told(self, site: str, told: NodesTold, now_ms: int) -> None:
        """Take in what the manager of a site, or a peer, tells of nodes."""
        if self._is_site(site):
            self._jobs.hear_of_nodes(site, told, now_ms)
        elif self._is_remote(site):
            self._jobs.hear_of_nodes_of_peer(site, told, now_ms)
        if told.complete and not self._jobs.nodes.is_lost(site):
            self._asked_anew.discard(site)

    def nodes_offered(self, site: str, told: NodesOffered, now_ms: int) -> None:
        """Take in that nodes of a site, or of a peer, offer themselves."""
        if self._is_remote(site):
            self._jobs.hear_of_offers(site, told, now_ms)

    def images_told(self, site: str, told: ImagesTold, now_ms: int) -> None:
        """Take in what the manager of a site, or a peer, tells of images."""
        if self._is_remote(site):
            self._jobs.hear_of_images(site, told, now_ms)

    def buildable_told(self, site: str, told: BuildableTold) -> None:
        """Take in what the manager of a site, or a peer, tells of what can be built."""
        if self._is_remote(site):
            self._jobs.hear_of_buildable(site, told)

    def build_told(self, site: str, told: BuildTold, now_ms: int) -> None:
        """Take in what has come of a build that the manager of a site, or a peer, was asked for."""
        if self._is_remote(site):
            self._jobs.hear_of_build(site, told, now_ms)

    def command_told(self, lease_id: int, site: str, told: CommandTold) -> None:
        """Take in what is told of the command of a lease there, before it is told what has become of the lease."""
        self._jobs.attempts.told(lease_id, site, AttemptStatus(**dict(told)))

    def output_told(self, site: str, told: OutputTold) -> None:
        """Pass on what the command of a lease there has written, if it is or was there."""
        row = self._store.lease(told.lease)
        if row is not None and row.lease.site == site:
            self._asked.pop((OutputWanted.__name__, told.lease), None)
            output = Output(told.text, is_whole=told.is_whole, error=told.error)
            self._jobs.tasks.heard.append(OutputHeard(told.lease, output, told.problem))

    def files_told(self, site: str, told: FilesSent) -> None:
        """Pass on what has become of the files of a command, if its lease is or was there."""
        row = self._store.lease(told.lease)
        if row is not None and row.lease.site == site:
            self._asked.pop((FilesWanted.__name__, told.lease), None)
            files = tuple(OutputFile(**dict(file)) for file in told.files)
            self._jobs.tasks.heard.append(FilesHeard(told.lease, files, told.problem))

    def ask_for_output(self, lease_id: int, row: LeaseRow, now_ms: int) -> None:
        """Ask for what the command of a lease has written, unless that is under way; raises NoSuchSite."""
        self._ask(OutputWanted(lease=lease_id), row, now_ms)

    def ask_for_files(self, lease_id: int, row: LeaseRow, now_ms: int) -> None:
        """Ask for the files that the command of a lease has left, unless that is under way; raises NoSuchSite."""
        self._ask(FilesWanted(lease=lease_id), row, now_ms)

    def _ask(self, wanted: OutputWanted | FilesWanted, row: LeaseRow, now_ms: int) -> None:
        site, remotes = row.lease.site, self._core.gateway.registry.remotes
        if site not in remotes:
            raise NoSuchSite(site, remotes)
        key = type(wanted).__name__, wanted.lease
        if key not in self._asked or self._log.has_arrived(site, self._asked[key]):
            self._asked[key] = self._log.send(site, wanted.model_dump(), now_ms)

    def look(self, now_ms: int) -> None:
        """Have those sites looked at of which something has proved wrong, as far as they are others' to look at."""
        looks = self._jobs.tasks.looks
        for site in sorted(looks):
            if self._is_remote(site):
                looks.discard(site)
                if self._log.has_arrived(site, self._looks.get(site, 0)):
                    self._looks[site] = self._log.send(site, LookWanted().model_dump(), now_ms)

    def take_up(self) -> None:
        """Leave out of what is to be built again after a restart what others were asked for: they know."""
        self._builds_of_others()

    def ask_for_builds(self, now_ms: int) -> None:
        """Ask the managers of sites, and peers, for what is to be built there."""
        for build in self._builds_of_others():
            base = image_there(self._jobs.images.rows[build.key, build.site].base, build.site)
            packages = tuple(sorted(build.packages))
            wanted = BuildWanted(key=build.key, site=site_there(build.site), base=base, packages=packages)
            self._log.send(provider_of(build.site), wanted.model_dump(mode="json"), now_ms)

    def _builds_of_others(self) -> list[Build]:
        """Take out what is to be built at sites with managers of their own, and behind peers."""
        tasks = self._jobs.tasks
        theirs = [build for build in tasks.builds if self._is_remote(provider_of(build.site))]
        tasks.builds = [build for build in tasks.builds if not self._is_remote(provider_of(build.site))]
        return theirs

    def is_back(self, site: str, now_ms: int) -> None:
        """A site is heard of; where its nodes count as failed because it was silent, all are to be told once more."""
        if site not in self._asked_anew and self._is_remote(site) and self._jobs.nodes.is_lost(site):
            self.ask_anew(site, now_ms)

    def ask_anew(self, site: str, now_ms: int, *, images: bool = False) -> None:
        """Have all nodes told once more, or also ``images``, and what can be built."""
        self._asked_anew.add(site)
        self._log.send(site, LookWanted(anew=True, images=images).model_dump(), now_ms)

    def forget(self, site: str) -> None:
        """Forget a site, or one end of a peer, that will not come back."""
        self._reporters.pop(site, None)
        self._asked_anew.discard(site)
        self._looks.pop(site, None)
        self._jobs.images.forget_asker(site)
        self._jobs.forget_site(site)

    def _is_remote(self, name: str) -> bool:
        return name in self._core.gateway.registry.remotes

    def _is_site(self, name: str) -> bool:
        remote = self._core.gateway.registry.remotes.get(name)
        return remote is not None and not remote.is_peer

    # At the site

    def heard(self, endpoint: str) -> None:
        """The gateway of this site, or a peer that may ask for something here, was heard of: it is told of nodes."""
        if endpoint in self._reporters:
            return
        peer = asking_peer(endpoint)
        if endpoint == GATEWAY:
            self._reporters[endpoint] = SiteReporter(self._jobs, self._log)
        elif peer in self._core.gateway.peering.terms:
            self._reporters[endpoint] = PeerReporter(self._jobs, self._log, self._core.gateway, peer)

    def tell(self, now_ms: int) -> None:
        """Tell whoever is told of nodes."""
        for reporter in self._reporters.values():
            reporter.tell(now_ms)

    def look_wanted(self, asked: LookWanted, gateway: str, now_ms: int) -> None:
        """Look at the nodes here; and tell all of them, where that is wanted."""
        self._jobs.tasks.looks.update(self._core.gateway.sites)
        if asked.anew and gateway in self._reporters:
            self._reporters[gateway].tell_anew(now_ms, images=asked.images)

    def placed_here(self, submit: Submit, gateway: str) -> Submit:
        """Give a request of a peer that has chosen nodes as one for the site of these; raises InvalidField.

        They were told to it, and it may have been long ago: what is not there any more is refused.
        """
        constraints, peer = submit.metadata.constraints, asking_peer(gateway)
        if not peer or not constraints.nodes:
            return submit
        sites = {*map(site_of, constraints.nodes)}
        site = min(sites)
        is_known = len(sites) == 1 and site in self._jobs.peer_sites.told_to(peer, [site])
        if not is_known or not all(name in self._jobs.nodes.rows for name in constraints.nodes):
            raise InvalidField("placed.nodes", constraints.nodes, "nodes of one site that was told")
        if constraints.image and not self._jobs.images.is_at(constraints.image, site):
            raise InvalidField("placed.image", constraints.image, f"an image that is at {site}")
        names, image = tuple(map(name_there, constraints.nodes)), image_there(constraints.image, site)
        by_nodes = self._jobs.is_planned_by_nodes(site)
        return replace(
            submit,
            request=replace(submit.request, domain=provider_of(site), on_nodes=names if by_nodes else ()),
            metadata=replace(submit.metadata, constraints=replace(constraints, nodes=names, image=image)),
        )

    def build_wanted(self, asked: BuildWanted, gateway: str, now_ms: int) -> None:
        """Have an image built here for the gateway of this site, or at a site of which a peer was told."""
        peer = asking_peer(gateway)
        if gateway != GATEWAY and not peer:
            refused, again = ONLY_FOR_GATEWAYS, False
        else:
            refused, again = self._not_built_for(peer, asked.site) if peer else "", True
        if refused:
            told = BuildTold(key=asked.key, site=asked.site, problem=one_line(refused), again=again)
            self._log.send(gateway, told.model_dump(mode="json"), now_ms)
        else:
            wanted = asked if peer else asked.model_copy(update={"site": ""})
            self._jobs.build_to_order(wanted, gateway, now_ms)

    def _not_built_for(self, peer: str, site: str) -> str:
        """Say why nothing is built at a site for a peer; "" where it may be."""
        if site not in self._jobs.peer_sites.told_to(peer, [site]):
            return NOT_TOLD.format(site or "this")
        if self._core.gateway.peering.terms[peer].max_vms == 0 or provider_of(site) in self._jobs.not_lending:
            return f"{site}: {SITE_CLOSED}"
        return ""

    def answer_builds(self, now_ms: int) -> None:
        """Tell the gateway, and peers, what has come of what they wanted built here."""
        images = self._jobs.images
        answers, images.answers = images.answers, []
        for one in answers:
            site = "" if one.endpoint == GATEWAY else one.site
            image, why = None, one_line(one.why)
            if one.image is not None and is_sound(name_told(one.image.name, site)):
                image = image_told(one.image, one.image.name)
            elif one.image is not None:
                why = UNSOUND
            told = BuildTold(key=one.key, site=site, image=image, problem=why, again=one.again)
            self._log.send(one.endpoint, told.model_dump(mode="json"), now_ms)

    def output_wanted(self, asked: OutputWanted, gateway: str, open_lease: int | None, now_ms: int) -> None:
        """Have read what the command of a lease has written that came from this gateway, be it over or not."""
        row = self._lease_of(asked.lease, gateway, open_lease)
        if row is None:
            self._log.send(gateway, _output_told(asked.lease, Output("", is_whole=False), _NOTHING), now_ms)
        else:
            self._jobs.tasks.reads.append(Read(row.lease.id, row.lease.site))

    def output_read(self, command: GuestOutput, row: LeaseRow, now_ms: int) -> None:
        """Tell its gateway what the command of a lease here has written."""
        metadata = row.metadata
        if metadata.origin and metadata.origin_id:
            body = _output_told(metadata.origin_id, command.output, command.problem)
            self._log.send(metadata.origin, body, now_ms)

    def files_wanted(self, asked: FilesWanted, gateway: str, open_lease: int | None, now_ms: int) -> None:
        """Have sent what the command of a lease has left that came from this gateway, be it over or not."""
        row = self._lease_of(asked.lease, gateway, open_lease)
        if row is None:
            self._log.send(gateway, FilesSent(lease=asked.lease, problem=_NOTHING).model_dump(), now_ms)
        else:
            self._jobs.tasks.sends.append(Send(row.lease.id, row.lease.site, row.metadata.files))

    def files_sent(self, command: GuestFiles, row: LeaseRow, now_ms: int) -> None:
        """Tell its gateway what was sent there of what the command of a lease here has left."""
        metadata = row.metadata
        if metadata.origin and metadata.origin_id:
            files = tuple(FileSent(**asdict(file) | {"problem": one_line(file.problem)}) for file in command.files)
            body = FilesSent(lease=metadata.origin_id, files=files, problem=one_line(command.problem))
            self._log.send(metadata.origin, body.model_dump(), now_ms)

    def _lease_of(self, origin_id: int, gateway: str, open_lease: int | None) -> LeaseRow | None:
        """Find a lease that came from a gateway, be it over or not; None where none of it was ever at a site here."""
        row = self._store.lease_from(gateway, origin_id) if open_lease is None else self._store.lease(open_lease)
        return None if row is None or not row.lease.site else row


def _output_told(lease_id: int, output: Output, problem: str) -> dict[str, object]:
    text, is_cut = shortened(output.text, MOST_WRITTEN_BYTES)
    error, is_error_cut = shortened(output.error, MOST_WRITTEN_BYTES)
    is_whole = output.is_whole and not (is_cut or is_error_cut or problem)
    told = OutputTold(lease=lease_id, text=text, error=error, is_whole=is_whole, problem=one_line(problem))
    return told.model_dump()


def command_told(status: AttemptStatus) -> CommandTold:
    """Tell what is known of a command."""
    said = {name: getattr(status, name) for name in CommandTold.model_fields}
    return CommandTold(**said | {"refused": one_line(status.refused)})
