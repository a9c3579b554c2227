"""Sites that decide for themselves, and peers: offers and recalls to them, reports from them, or the other way.

A message is numbered by its sender for each endpoint, and taken in once, in the transaction in which the engine
does what it asks for.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from leasehold.gateway.peering import MOST_HOPS
from leasehold.model.errors import InvalidField
from leasehold.model.event import CancelRequested, Carried, Event, LeaseCommitted, SiteReported, Submitted, Tick
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.service.commands import MessageBatch
from leasehold.service.engine.agreements import AgreementRepository
from leasehold.service.engine.checkpoints import Checkpoints
from leasehold.service.engine.context import EngineContext
from leasehold.service.engine.leases import LeaseRepository
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.errors import CannotCheckpoint, Closed
from leasehold.service.messages import wire
from leasehold.service.messages.endpoints import GATEWAY, asking_peer
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.wire import Offer
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import (
    ENDPOINTS,
    LEASES,
    MESSAGES,
    SNAPSHOTS,
    EndpointRow,
    MessageRow,
    PeerRow,
    SnapshotRow,
)

REMOTE_SITES = "remotes"
"""The name of a snapshot."""

T = TypeVar("T")
NumberedText = tuple[int, str]
"""A message: its number, and what it says as JSON."""


class MessageLog:
    """Numbers what is sent to each endpoint, and knows what came last from there."""

    def __init__(self, store: Reading, unit: UnitOfWork) -> None:
        self._store = store
        self._unit = unit
        self._endpoints: dict[str, EndpointRow] = {}
        self._acknowledged: dict[str, int] = {}

    def send(self, endpoint: str, body: dict[str, Any], now_ms: int) -> None:
        """Write a message; it goes out once it is in the store."""
        state = self._of(endpoint)
        state.last_sent_seq += 1
        self._unit.put(ENDPOINTS, state)
        self._unit.add(MESSAGES, MessageRow(endpoint, state.last_sent_seq, json.dumps(body), now_ms))

    def take_in(self, endpoint: str, messages: Iterable[NumberedText], read: Callable[[Any], T]) -> list[T]:
        """Take in, as ``read`` understands them, those that follow the last one; others are passed over.

        Raises InvalidField where one in between is missing, and what ``read`` raises: then none is taken in.
        """
        state = self._of(endpoint)
        new = [(number, text) for number, text in messages if number > state.last_received_seq]
        for expected, (number, _) in enumerate(new, state.last_received_seq + 1):
            if number != expected:
                raise InvalidField("messages", number, f"number {expected} from {endpoint}")
        understood = [read(json.loads(text)) for _, text in new]
        if new:
            state.last_received_seq = new[-1][0]
            self._unit.put(ENDPOINTS, state)
        return understood

    def acknowledge(self, endpoint: str, up_to: int) -> None:
        """The endpoint has taken in the messages up to this one.

        Raises InvalidField for one that was never sent: then one of the two has forgotten something, and
        whatever is sent next would be taken for what is known already.
        """
        last = self._of(endpoint).last_sent_seq
        if up_to > last:
            expected = f"at most {last}, the last message to {endpoint}: was an older store put back?"
            raise InvalidField("acknowledged", up_to, expected)
        if up_to > self._acknowledged.get(endpoint, 0):
            self._unit.acknowledged[endpoint] = self._acknowledged[endpoint] = up_to

    def forget(self, endpoint: str) -> None:
        """Forget all messages and numbers of an endpoint; another under its name begins with number 1."""
        for table in (MESSAGES, ENDPOINTS):
            self._unit.remove(table, endpoint=endpoint)
        self._unit.acknowledged.pop(endpoint, None)
        self._acknowledged.pop(endpoint, None)
        self._endpoints[endpoint] = EndpointRow(endpoint, 0, 0)

    def _of(self, endpoint: str) -> EndpointRow:
        if endpoint not in self._endpoints:
            self._endpoints[endpoint] = EndpointRow(endpoint, *self._store.message_numbers(endpoint))
        return self._endpoints[endpoint]


class RemoteSiteProtocol:
    """Both ends of the protocol: a gateway offers leases and takes reports in, a site takes offers and reports.

    ``remotes``  the last status of each remote site and peer
    """

    def __init__(
        self,
        context: EngineContext,
        leases: LeaseRepository,
        agreements: AgreementRepository,
        peers: Mapping[str, PeerRow],
        checkpoints: Checkpoints,
    ) -> None:
        """Begin with what is in the store, and let the gateway know of its remote sites."""
        self.remotes = stored_remotes(context.store)
        self._log = MessageLog(context.store, context.unit)
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
            remote = status.as_remote(name)
            remote.silent = True  # until it is heard of
            context.core.gateway.join(remote)

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
        news: list[Event] = []
        requests = [] if batch.status is None else self._update(endpoint, batch.status)
        for message in messages:
            if isinstance(message, SiteReported):
                news.append(message)
            elif isinstance(message, Offer):
                requests += self._consider(message, endpoint, now_ms)
            elif isinstance(message, wire.Commit):
                requests += self._commit(message.lease_id, endpoint)
            elif isinstance(message, wire.Checkpointed):
                news += self._guest_checkpointed(message.lease_id, endpoint, now_ms)
            else:
                requests += self._give_up(message.lease_id, endpoint)
        return news, requests

    # Outgoing messages

    def offer(self, lease: Lease, *, wait: bool, now_ms: int) -> None:
        """Offer a lease to the site that it was routed to, where it may wait or not."""
        hop = self._core.gateway.peering.hop(lease)
        self._log.send(lease.site, wire.offer(lease, self._leases.metadata[lease.id], hop, wait=wait), now_ms)

    def recall(self, lease: Lease, now_ms: int) -> None:
        """Ask its site to give a lease up."""
        self._log.send(lease.site, wire.recall(lease), now_ms)

    def commit(self, lease: Lease, now_ms: int) -> None:
        """Tell its site that what it has promised a component holds."""
        self._log.send(lease.site, wire.commit(lease), now_ms)

    def checkpointed(self, lease: Lease, now_ms: int) -> None:
        """Pass on to its site that the guest of a lease has saved its work."""
        self._log.send(lease.site, wire.checkpointed(lease), now_ms)

    def report(self, now_ms: int) -> None:
        """Report to their gateways what this step has made of leases that came from there."""
        if not self._by_origin:
            return
        for row in self._unit.rows(LEASES):
            lease, metadata = row.lease, row.metadata
            if not metadata.origin:
                continue
            if lease.state.is_final:
                origin = metadata.origin, metadata.origin_id
                self._unit.after_commit(partial(self._by_origin.pop, origin, None))
            prepared_until_ms = lease.request.prepared_until_ms
            onward = (lease.site, *metadata.onward) if lease.site in self._peers else ()
            status = f"{lease.state} {metadata.reason} {lease.preemptions} {prepared_until_ms} {onward}"
            if metadata.origin_id and status != metadata.reported:
                metadata.reported = status
                self._log.send(metadata.origin, wire.report(lease, metadata, onward[:MOST_HOPS]), now_ms)

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
        self._agreements.leave(name)
        self._log.forget(name)

    def _update(self, name: str, status: SiteStatus) -> list[Event]:
        """A site says how it is; leases that waited for that are routed now."""
        gateway = self._core.gateway
        if self.remotes.get(name) != status:
            self.remotes[name] = status
            self._keep_remotes()
        self._agreements.join(name, status)
        remote = gateway.registry.remotes.get(name)
        if remote is None or not status.is_like(remote):
            gateway.join(status.as_remote(name))
        else:
            was_open, was_silent = remote.is_open, remote.silent
            remote.live, remote.lends, remote.silent = status.live(), status.lends, False
            remote.beyond = status.reached
            if was_silent or (remote.is_open and not was_open):
                gateway.retry_all()
        gateway.mark_dirty()
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
            gateway.peering.identify(name, status.gateway_id)

    # Incoming requests

    def _consider(self, offer: Offer, gateway: str, now_ms: int) -> Iterable[Event]:
        """Take a request in, or say why that makes no sense: a deadline may have passed on the way."""
        submit, providers = offer.submit, self._agreements.providers
        until_ms = submit.request.prepared_until_ms
        if until_ms is not None and until_ms <= now_ms:
            self._log.send(gateway, wire.refusal(offer.lease_id, Reason.PROMISE_EXPIRED), now_ms)
            return ()
        offered = submit.request
        if offered.domain and not providers.sites_of(offered.domain):  # the gateway's, which has chosen in it
            offered = replace(offered, domain="")
        try:
            wire.check_offer(offered)
            self._check_carried(offered, submit.carried)
            request = self._leases.submit(replace(submit, request=offered), now_ms)
        except InvalidField as error:
            is_late = error.field == "deadline_ms"
            reason = Reason.DEADLINE_TOO_TIGHT if is_late else Reason.POLICY_REFUSED
            self._log.send(gateway, wire.refusal(offer.lease_id, reason), now_ms)
            return ()
        self._by_origin[submit.metadata.origin, submit.metadata.origin_id] = request.id
        return [Submitted(request, submit.carried)]

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

    def _give_up(self, origin_id: int, gateway: str) -> Iterable[Event]:
        lease_id = self._by_origin.get((gateway, origin_id))
        return () if lease_id is None else [CancelRequested(lease_id)]


def stored_remotes(store: Reading) -> dict[str, SiteStatus]:
    """Read the last status of each remote site and peer."""
    kept = json.loads(store.snapshots().get(REMOTE_SITES, "{}"))
    return {name: SiteStatus.from_dict(fields) for name, fields in kept.items()}
