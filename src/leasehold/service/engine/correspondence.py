"""Messages as the engine reads and writes them: offers and recalls at a site, reports at a gateway."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.model.errors import InvalidField
from leasehold.model.event import CancelRequested, Event, SiteReported, Tick
from leasehold.model.lease import Lease
from leasehold.model.reason import Reason
from leasehold.service.commands import Mail, Submit
from leasehold.service.messages import wire
from leasehold.service.messages.names import asking_peer
from leasehold.service.messages.wire import About, Offer

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine

TakeIn = Callable[[Submit, int], Iterable[Event]]


class Correspondence:
    """Both ends of it: what an engine is asked for depends on what its correspondents write.

    ``abouts``  what the sites that decide for themselves last said of themselves
    """

    def __init__(self, engine: "Engine", abouts: dict[str, About], take_in: TakeIn) -> None:
        self._engine = engine
        self._take_in = take_in
        self.abouts = abouts
        self.has_new_abouts = False
        self._by_origin = {
            (about.origin, about.origin_id): lease_id for lease_id, about in engine.about.items() if about.origin
        }
        for name, about in abouts.items():
            remote = about.as_remote(name)
            remote.silent = True  # until it is heard of
            engine.gateway.join(remote)

    def read(self, mail: Mail, now_ms: int) -> tuple[list[Event], list[Event]]:
        """Take messages in; returns news of leases, and what is asked for.

        Raises InvalidField, and then nothing of it was taken in.
        """
        who, postbox = mail.correspondent, self._engine.postbox
        if mail.about is not None:
            self._check(who, mail.about)
        elif asking_peer(who) and asking_peer(who) not in self._engine.handlers.peers.rows:
            raise InvalidField("peer", asking_peer(who), "the name of a peer")
        postbox.acknowledged(who, mail.acknowledged)
        messages = postbox.take_in(who, mail.messages, lambda body: wire.read(body, who))
        news: list[Event] = []
        asked = [] if mail.about is None else self._hear_of(who, mail.about)
        for message in messages:
            if isinstance(message, SiteReported):
                news.append(message)
            elif isinstance(message, Offer):
                asked += self._consider(message, who, now_ms)
            else:
                asked += self._give_up(message.lease_id, who)
        return news, asked

    def report_on(self, leases: Iterable[Lease], now_ms: int) -> None:
        """Write to their gateways what has become of leases that came from there."""
        for lease in leases:
            about = self._engine.about[lease.id]
            if not about.origin or not about.origin_id:
                continue
            said = f"{lease.state} {about.reason} {lease.preemptions}"
            if said != about.reported:
                about.reported = said
                self._engine.postbox.write(about.origin, wire.report(lease, about), now_ms)

    def offer(self, lease: Lease, wait: bool, now_ms: int) -> None:  # noqa: FBT001 - as the effect says it
        """Write an offer to the site that a lease is sent to, where it may wait or not."""
        body = wire.offer(lease, self._engine.about[lease.id], wait=wait)
        self._engine.postbox.write(lease.site, body, now_ms)

    def recall(self, lease: Lease, now_ms: int) -> None:
        """Write to its site that a lease is wanted back."""
        self._engine.postbox.write(lease.site, wire.recall(lease), now_ms)

    def tell_no_more(self, lease_id: int) -> None:
        """Nobody wants to know any more what becomes of a lease that came from elsewhere."""
        about = self._engine.about[lease_id]
        self.over(about.origin, about.origin_id)
        about.origin_id = 0

    def over(self, origin: str, origin_id: int) -> None:
        """A lease that came from elsewhere is over."""
        self._by_origin.pop((origin, origin_id), None)

    def forget(self, name: str) -> None:
        """A site that decides for itself will not come back."""
        self.abouts.pop(name, None)
        self.has_new_abouts = True
        self._engine.handlers.agreements.part_with(name)
        self._engine.postbox.forget(name)

    def _hear_of(self, name: str, about: About) -> list[Event]:
        """A site says how it is; whoever waited for that is routed now."""
        gateway = self._engine.gateway
        known = self.abouts.get(name)
        self.has_new_abouts |= known != about
        self.abouts[name] = about
        self._engine.handlers.agreements.join(name, about)
        remote = gateway.registry.remotes.get(name)
        if remote is None or not about.is_like(remote):
            gateway.join(about.as_remote(name))
        else:
            was_open = remote.is_open
            remote.live, remote.lends, remote.silent = about.live(), about.lends, False
            if remote.is_open and not was_open:
                gateway.retry_all()
        gateway.mark_dirty()
        return [Tick()] if gateway.has_pending_work else []

    def _check(self, name: str, about: About) -> None:
        """Refuse a site that is not who it was, or that counts work differently."""
        gateway, known = self._engine.gateway, self.abouts.get(name)
        is_peer = name in self._engine.handlers.peers.rows
        is_ours = name in gateway.sites or self._engine.handlers.agreements.is_domain(name)
        if is_ours or name == wire.GATEWAY or (is_peer and not about.is_gateway):
            raise InvalidField("site", name, "a name that neither the gateway nor one of its own sites has")
        if about.is_gateway and not is_peer:
            expected = f"the name of a peer; an administrator can make it one: leasehold peer add {name}"
            raise InvalidField("peer", name, expected)
        if known is not None and known.identity != about.identity:
            verb = "peer remove" if is_peer else "site forget"
            expected = (
                f"{known.identity}, the store that {name} had before;"
                f" if that is lost, an administrator can let go of it: leasehold {verb} {name}"
            )
            raise InvalidField("identity", about.identity, expected)
        if about.reference_mips != gateway.reference_mips:
            raise InvalidField("reference_mips", about.reference_mips, f"the gateway's {gateway.reference_mips}")

    def _consider(self, offer: Offer, gateway: str, now_ms: int) -> Iterable[Event]:
        """Take a request in, or say why that makes no sense: a deadline may have passed on the way."""
        submit, providers = offer.submit, self._engine.handlers.agreements.providers
        asked = submit.request
        if asked.domain and not providers.sites_of(asked.domain):  # the gateway's, which has chosen in it
            asked = replace(asked, domain="")
        try:
            wire.check_offer(asked)
            return self._take_in(replace(submit, request=asked), now_ms)
        except InvalidField as error:
            is_late = error.field == "deadline_ms"
            reason = Reason.DEADLINE_TOO_TIGHT if is_late else Reason.POLICY_REFUSED
            self._engine.postbox.write(gateway, wire.refusal(offer.lease_id, reason), now_ms)
            return ()

    def _give_up(self, origin_id: int, gateway: str) -> Iterable[Event]:
        lease_id = self._by_origin.get((gateway, origin_id))
        return () if lease_id is None else [CancelRequested(lease_id)]

    def took_in(self, lease_id: int, submit: Submit) -> None:
        """A request from elsewhere has its number here."""
        self._by_origin[submit.metadata.origin, submit.metadata.origin_id] = lease_id


def abouts_from(memory: dict[str, Any]) -> dict[str, About]:
    """Read what was kept of the sites."""
    return {name: About.from_dict(told) for name, told in memory.items()}
