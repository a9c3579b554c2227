"""Sites that decide for themselves, and peers: offers and orders to them, reports from them, or the other way.

A message is numbered by its sender for each endpoint, and taken in once, in the transaction in which the engine
does what it asks for.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from leasehold.gateway.gateway import ProviderLeft
from leasehold.gateway.peering import MOST_HOPS
from leasehold.model.effect import Decision
from leasehold.model.errors import InvalidField
from leasehold.model.event import (
    CancelRequested,
    Carried,
    Event,
    ExtensionAnswered,
    ExtensionAsked,
    LeaseCommitted,
    Submitted,
    Tick,
)
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason
from leasehold.model.request import LeaseType, Request
from leasehold.service.commands import AskForPlan, GuestPlan, MessageBatch
from leasehold.service.drivers.bounds import one_line
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.checkpoints import Checkpoints
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.jobs import JobController
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.engine.message_log import MessageLog
from leasehold.service.engine.remote_jobs import RemoteJobs, command_told
from leasehold.service.engine.tasks import PlanFor, PlanHeard
from leasehold.service.errors import CannotCheckpoint, Closed
from leasehold.service.messages import wire
from leasehold.service.messages.about_jobs import (
    AboutJobs,
    BuildableTold,
    BuildTold,
    BuildWanted,
    FilesSent,
    FilesWanted,
    ImagesTold,
    LookWanted,
    NodesOffered,
    NodesTold,
    OutputTold,
    OutputWanted,
)
from leasehold.service.messages.about_plans import Planned
from leasehold.service.messages.endpoints import GATEWAY, asking_peer
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.wire import Offer, Reported
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import LEASES, SNAPSHOTS, PeerRow, SnapshotRow

REMOTE_SITES = "remotes"
"""The name of a snapshot."""

_MOST_PLANS = 20


class RemoteSiteProtocol:
    """Both ends of the protocol: a gateway offers leases and takes reports in, a site takes offers and reports.

    ``remotes``  the last status of each remote site and peer; ``jobs`` is what is said to them about jobs
    """

    def __init__(
        self,
        context: EngineContext,
        leases: LeaseRepository,
        agreements: AgreementRepository,
        peers: Mapping[str, PeerRow],
        checkpoints: Checkpoints,
        jobs: JobController,
    ) -> None:
        """Begin with what is in the store, and let the gateway know of its remote sites."""
        self.remotes = stored_remotes(context.store)
        self._log = MessageLog(context.store, context.unit)
        self.jobs = RemoteJobs(context, jobs, self._log)
        self._attempts = jobs.attempts
        self._tasks = jobs.tasks
        self._unit = context.unit
        self._core = context.core
        self._leases = leases
        self._agreements = agreements
        self._peers = peers
        self._checkpoints = checkpoints
        self._by_origin = {
            (metadata.origin, metadata.origin_id): lease_id
            for lease_id, metadata in leases.metadata.items()
            if metadata.origin
        }
        for name, status in self.remotes.items():
            context.core.gateway.join(replace(status.told(name), silent=True).remote())  # until it is heard of
        self.jobs.take_up()

    def receive(self, batch: MessageBatch, now_ms: int) -> tuple[list[Event], list[Event]]:
        """Take messages in; returns news of leases, and what is asked for.

        Raises InvalidField, and then nothing of it was taken in.
        """
        endpoint = batch.endpoint
        if batch.status is not None:
            self._check(endpoint, batch.status)
        elif asking_peer(endpoint) and asking_peer(endpoint) not in self._peers:
            raise InvalidField("peer", asking_peer(endpoint), "the name of a peer")
        self._log.acknowledge(endpoint, batch.acknowledged)
        messages = self._log.take_in(endpoint, batch.messages, lambda body: wire.read(body, endpoint))
        requests = [] if batch.status is None else self._update(endpoint, batch.status)
        if batch.status is not None:
            self.jobs.is_back(endpoint, now_ms)
        else:
            self.jobs.heard(endpoint)
        news: list[Event] = []
        for message in messages:
            if isinstance(message, AboutJobs):
                self._about_jobs(message, endpoint, now_ms)
            elif isinstance(message, ExtensionAnswered):
                news.append(message)
            elif isinstance(message, Reported):
                news.append(self._reported(message, endpoint))
            elif isinstance(message, wire.PlanWanted | Planned):
                self._about_plans(message, endpoint, now_ms)
            elif isinstance(message, wire.Checkpointed):
                news += self._guest_checkpointed(message.lease_id, endpoint, now_ms)
            else:
                requests += self._asked(message, endpoint, now_ms)
        return news, requests

    def _reported(self, message: Reported, endpoint: str) -> Event:
        if message.command is not None:
            self.jobs.command_told(message.news.lease_id, endpoint, message.command)
        return message.news

    def _asked(
        self, message: Offer | wire.Recall | wire.Commit | wire.Extend, endpoint: str, now_ms: int
    ) -> Iterable[Event]:
        if isinstance(message, Offer):
            return self._consider(message, endpoint, now_ms)
        if isinstance(message, wire.Commit):
            return self._commit(message.lease_id, endpoint)
        if isinstance(message, wire.Extend):
            return self._extend(message, endpoint)
        return self._give_up(message.lease_id, endpoint)

    def _about_plans(self, message: wire.PlanWanted | Planned, endpoint: str, now_ms: int) -> None:
        """Pass on an answer; or have a question answered after this step, but not very many at once."""
        if isinstance(message, Planned):
            self._tasks.heard.append(PlanHeard(endpoint, message.number, message, message.problem))
            return
        submit = replace(message.submit, request=self._as_meant_here(message.submit.request))
        problem = "" if len(self._tasks.plans) < _MOST_PLANS else f"more than {_MOST_PLANS} plans are wanted at once"
        try:
            submit = self.jobs.placed_here(submit, endpoint)
            wire.check_offer(submit.request)
        except InvalidField as error:
            problem = str(error)
        if problem:
            answer = wire.cannot_plan(message.number, one_line(problem))
            self._log.send(endpoint, answer.model_dump(mode="json"), now_ms)
        else:
            self._tasks.plans.append(PlanFor(message.number, endpoint, submit, message.within_ms))

    def _about_jobs(self, message: AboutJobs, endpoint: str, now_ms: int) -> None:
        match message:
            case NodesTold():
                self.jobs.nodes_told(endpoint, message, now_ms)
            case NodesOffered():
                self.jobs.nodes_offered(endpoint, message, now_ms)
            case ImagesTold():
                self.jobs.images_told(endpoint, message, now_ms)
            case BuildableTold() | BuildTold() | BuildWanted():
                self._about_builds(message, endpoint, now_ms)
            case OutputTold():
                self.jobs.output_told(endpoint, message)
            case FilesSent():
                self.jobs.files_told(endpoint, message)
            case OutputWanted():
                self.jobs.output_wanted(message, endpoint, self._by_origin.get((endpoint, message.lease)), now_ms)
            case FilesWanted():
                self.jobs.files_wanted(message, endpoint, self._by_origin.get((endpoint, message.lease)), now_ms)
            case LookWanted():
                self.jobs.look_wanted(message, endpoint, now_ms)

    def _about_builds(self, message: BuildableTold | BuildTold | BuildWanted, endpoint: str, now_ms: int) -> None:
        match message:
            case BuildableTold():
                self.jobs.buildable_told(endpoint, message)
            case BuildTold():
                self.jobs.build_told(endpoint, message, now_ms)
            case BuildWanted():
                self.jobs.build_wanted(message, endpoint, now_ms)

    # Outgoing messages

    def offer(self, lease: Lease, *, wait: bool, now_ms: int) -> None:
        """Offer a lease to the site that it was routed to, where it may wait or not."""
        hop = self._core.gateway.peering.hop(lease)
        self._log.send(lease.site, wire.offer(lease, self._leases.metadata[lease.id], hop, wait=wait), now_ms)

    def ask_for_plan(self, command: AskForPlan, now_ms: int) -> None:
        """Ask a site or peer what would become of a request there.

        It is asked under the number of the question: that of the next lease may be taken before the question arrives.
        """
        request = replace(command.request, id=command.number)
        lease = Lease(request.id, request, request.vms, 0, now_ms, site=command.site)
        body = wire.offer(lease, command.metadata, self._core.gateway.peering.hop(lease), wait=request.wait)
        self._log.send(command.site, wire.plan(command.number, body, command.within_ms), now_ms)

    def planned(self, command: GuestPlan, now_ms: int) -> None:
        """Say to a gateway what would become of a request here."""
        told, beyond = command.prospect, command.beyond
        there = None if told is None else told.elsewhere
        onward = (there.name,) if there is not None and there.is_peer else ()
        if told is None:
            body = wire.cannot_plan(command.number, one_line(command.problem))
        elif beyond is not None:
            passed = (*onward, *beyond.onward)[:MOST_HOPS]
            body = beyond.model_copy(update={"number": command.number, "onward": passed})
        else:
            body = Planned(
                number=command.number,
                state=told.state,
                reason=told.reason,
                starts_in_ms=-1 if told.start_ms is None else max(0, told.start_ms - now_ms),
                ends_in_ms=-1 if told.end_ms is None else max(0, told.end_ms - now_ms),
                preempted_leases=len(told.victims),
                preempted_vms=told.preempted_vms,
                delayed_leases=len(told.delays),
                onward=onward,
                passed_on=there is not None,
            )
        self._log.send(command.gateway, body.model_dump(mode="json"), now_ms)

    def recall(self, lease: Lease, now_ms: int) -> None:
        """Ask its site to give a lease up."""
        self._log.send(lease.site, wire.recall(lease), now_ms)

    def commit(self, lease: Lease, now_ms: int) -> None:
        """Tell its site that what it has promised a component holds."""
        self._log.send(lease.site, wire.commit(lease), now_ms)

    def extend(self, lease: Lease, duration_ms: int, now_ms: int) -> None:
        """Ask its site to let a lease last so long in all."""
        self._log.send(lease.site, wire.extend(lease, duration_ms), now_ms)

    def decided_to_extend(self, decision: Decision, now_ms: int) -> None:
        """Tell its gateway for how long a lease from there may last now, or why not so long as was wanted."""
        lease, duration_ms = decision.lease, decision.duration_ms
        metadata = self._leases.metadata[lease.id]
        if duration_ms is None or not metadata.origin_id or lease.wanted_ms == duration_ms:
            return  # or the answer to just that is still to come
        refusal = None if decision.outcome is Outcome.EXTEND else decision.reason
        self._log.send(metadata.origin, wire.extended(metadata.origin_id, duration_ms, refusal), now_ms)

    def checkpointed(self, lease: Lease, now_ms: int) -> None:
        """Pass on to its site that the guest of a lease has saved its work."""
        self._log.send(lease.site, wire.checkpointed(lease), now_ms)

    def report(self, now_ms: int) -> None:
        """Report to their gateways what this step has made of leases that came from there, and what is new here."""
        self.jobs.look(now_ms)
        self.jobs.ask_for_builds(now_ms)
        self.jobs.answer_builds(now_ms)
        self._report_leases(now_ms)
        self.jobs.tell(now_ms)

    def _report_leases(self, now_ms: int) -> None:
        if not self._by_origin:
            return
        for row in self._unit.rows(LEASES):
            lease, metadata = row.lease, row.metadata
            if not metadata.origin:
                continue
            if lease.state.is_final:
                origin = metadata.origin, metadata.origin_id
                self._unit.after_commit(partial(self._by_origin.pop, origin, None))
                self._unit.after_commit(partial(self._attempts.forget, lease.id))
            prepared_until_ms = lease.request.prepared_until_ms
            onward = (lease.site, *metadata.onward) if lease.site in self._peers else ()
            status = f"{lease.state} {metadata.reason} {lease.preemptions} {prepared_until_ms} {onward}"
            if metadata.origin_id and status != metadata.reported:
                metadata.reported = status
                command = command_told(self._attempts.command_of(lease, now_ms)) if metadata.command else None
                self._log.send(metadata.origin, wire.report(lease, metadata, onward[:MOST_HOPS], command), now_ms)

    # Registration

    def report_no_more(self, lease_id: int) -> None:
        """Stop reporting on a lease that came from elsewhere."""
        metadata = self._leases.metadata[lease_id]
        self._by_origin.pop((metadata.origin, metadata.origin_id), None)
        metadata.origin_id = 0

    def forget(self, name: str) -> None:
        """Forget a site or peer that will not come back."""
        if self.remotes.pop(name, None) is not None:
            self._keep_remotes()
        self._core.hear(ProviderLeft(name))
        self.jobs.forget(name)
        self._log.forget(name)

    def _update(self, name: str, status: SiteStatus) -> list[Event]:
        """A site says how it is; leases that waited for that are routed now."""
        gateway = self._core.gateway
        if self.remotes.get(name) != status:
            self.remotes[name] = status
            self._keep_remotes()
        self._core.hear(status.told(name))
        return [Tick()] if gateway.has_pending_work or gateway.coallocations.open else []

    def _keep_remotes(self) -> None:
        text = json.dumps({name: status.to_dict() for name, status in self.remotes.items()})
        self._unit.put(SNAPSHOTS, SnapshotRow(REMOTE_SITES, text))

    def _check(self, name: str, status: SiteStatus) -> None:
        """Reject a site whose identity has changed, or whose reference speed differs."""
        gateway, known = self._core.gateway, self.remotes.get(name)
        is_peer = name in self._peers
        is_ours = name in gateway.sites or self._agreements.is_domain(name)
        if is_ours or name == GATEWAY or (is_peer and not status.is_gateway):
            raise InvalidField("site", name, "a name that neither the gateway nor one of its own sites has")
        if status.is_gateway and not is_peer:
            expected = f"the name of a peer; an administrator can make it one: leasehold peer add {name}"
            raise InvalidField("peer", name, expected)
        if known is not None and known.identity != status.identity:
            verb = "peer remove" if is_peer else "site forget"
            expected = (
                f"{known.identity}, the store that {name} had before;"
                f" if that is lost, an administrator can remove it: leasehold {verb} {name}"
            )
            raise InvalidField("identity", status.identity, expected)
        if status.reference_mips != gateway.reference_mips:
            raise InvalidField("reference_mips", status.reference_mips, f"the gateway's {gateway.reference_mips}")
        if is_peer:
            gateway.peering.check_id(name, status.gateway_id)

    # Incoming requests

    def _consider(self, offer: Offer, gateway: str, now_ms: int) -> Iterable[Event]:
        """Take a request in, or say why that makes no sense: a deadline may have passed on the way."""
        submit = offer.submit
        until_ms = submit.request.prepared_until_ms
        if until_ms is not None and until_ms <= now_ms:
            self._log.send(gateway, wire.refusal(offer.lease_id, Reason.PROMISE_EXPIRED), now_ms)
            return ()
        submit = replace(submit, request=self._as_meant_here(submit.request))
        try:
            submit = self.jobs.placed_here(submit, gateway)
        except InvalidField as error:
            self._log.send(gateway, wire.not_there(offer.lease_id, one_line(str(error))), now_ms)
            return ()
        try:
            wire.check_offer(submit.request)
            self._check_carried(submit.request, submit.carried)
            request = self._leases.submit(submit, now_ms)
        except InvalidField as error:
            is_late = error.field == "deadline_ms"
            reason = Reason.DEADLINE_TOO_TIGHT if is_late else Reason.POLICY_REFUSED
            self._log.send(gateway, wire.refusal(offer.lease_id, reason), now_ms)
            return ()
        self._by_origin[submit.metadata.origin, submit.metadata.origin_id] = request.id
        return [Submitted(request, submit.carried)]

    def _as_meant_here(self, offered: Request) -> Request:
        """Leave out a domain that is not ours but its gateway's, which has chosen in it."""
        is_theirs = bool(offered.domain) and not self._agreements.providers.sites_of(offered.domain)
        return replace(offered, domain="") if is_theirs else offered

    def _check_carried(self, request: Request, carried: Carried | None) -> None:
        """Refuse to continue what no site here can, or what would be more work than was asked for."""
        if carried is None:
            return
        gateway = self._core.gateway
        work = request.duration_ms * gateway.reference_mips
        if not carried.work_left <= work:
            raise InvalidField("carried.work_left", carried.work_left, f"a whole number from 1 to {work}")
        places = (*gateway.sites, *gateway.registry.remotes)
        if request.lease_type is not LeaseType.MIGRATABLE or not any(map(gateway.registry.hands_over, places)):
            raise InvalidField(
                "carried", request.lease_type.label, "null, or a migratable lease and a site that takes it"
            )

    def _guest_checkpointed(self, origin_id: int, gateway: str, now_ms: int) -> Iterable[Event]:
        """Take it in, or pass it on; where there is nothing to save any more, it says nothing."""
        lease_id = self._by_origin.get((gateway, origin_id))
        if lease_id is None:
            return ()
        lease = self._leases.row(lease_id).lease
        if lease.site in self._core.gateway.registry.remotes and not lease.state.is_final:
            self.checkpointed(lease, now_ms)
            return ()
        try:
            return self._checkpoints.report(lease_id, now_ms)
        except (Closed, CannotCheckpoint):
            return ()

    def _commit(self, origin_id: int, gateway: str) -> Iterable[Event]:
        lease_id = self._by_origin.get((gateway, origin_id))
        return () if lease_id is None else [LeaseCommitted(lease_id)]

    def _extend(self, asked: wire.Extend, gateway: str) -> Iterable[Event]:
        """Extend what is still here; its gateway knows, or learns, of what is over."""
        lease_id = self._by_origin.get((gateway, asked.lease_id))
        return () if lease_id is None else [ExtensionAsked(lease_id, asked.duration_ms)]

    def _give_up(self, origin_id: int, gateway: str) -> Iterable[Event]:
        lease_id = self._by_origin.get((gateway, origin_id))
        return () if lease_id is None else [CancelRequested(lease_id)]


def stored_remotes(store: Reading) -> dict[str, SiteStatus]:
    """Read the last status of each remote site and peer."""
    kept = json.loads(store.snapshots().get(REMOTE_SITES, "{}"))
    return {name: SiteStatus.from_dict(fields) for name, fields in kept.items()}
