"""The peers of one engine: what was agreed with them, and what is to be written of that."""

from typing import TYPE_CHECKING

from leasehold.gateway.peering import AskWhen, Terms
from leasehold.model.errors import InvalidField
from leasehold.model.event import CancelRequested, Event, SiteForgotten, Tick
from leasehold.service.commands import KeepPeer, RemovePeer
from leasehold.service.errors import CannotRemovePeer, NoSuchPeer
from leasehold.service.messages.names import GATEWAY, asking
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import PEERS, PeerRow

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine


class PeerBook:
    """Reads what is said about peers; ``rows`` are those that there are."""

    def __init__(self, engine: "Engine") -> None:
        """Begin with those in the store, and tell the decision core."""
        self.rows = {row.name: row for row in engine.store.peers()}
        self._engine = engine
        self._kept: dict[str, PeerRow] = {}
        self._dropped: list[str] = []
        for row in self.rows.values():
            engine.gateway.peering.agree(row.name, _terms(row))

    def keep(self, command: KeepPeer, now_ms: int) -> list[Event]:
        """Agree with somebody, known before or not; raises InvalidField for the name of somebody else.

        Whoever waits may be served by it now.
        """
        name, before = command.name, self.rows.get(command.name)
        if before is None:
            self._check_name(name)
        row = PeerRow(
            name=name,
            url=command.url,
            ask=AskWhen(command.ask).value,
            max_vms=command.max_vms,
            line=command.line if before is None else before.line,
            added_ms=now_ms if before is None else before.added_ms,
            added_by=command.by if before is None else before.added_by,
        )
        self.rows[name] = self._kept[name] = row
        gateway = self._engine.gateway
        gateway.peering.agree(name, _terms(row))
        gateway.peering.begin_to_count(name, now_ms)
        gateway.retry_all()
        what = "peer-added" if before is None else "peer-changed"
        told = {"url": row.url, "ask": row.ask, "max_vms": row.max_vms}
        self._engine.minutes.line_about_site(name, what, now_ms, by=command.by, **told)
        return [Tick()] if gateway.has_pending_work else []

    def remove(self, command: RemovePeer, now_ms: int) -> list[Event]:
        """Part with a peer: what is there has failed, and what it has here is ended.

        Raises NoSuchPeer, and CannotRemovePeer while there is anything of that and the peer is in touch.
        """
        name, engine = command.name, self._engine
        if name not in self.rows:
            raise NoSuchPeer(name, self.rows)
        guests = list(engine.gateway.peering.here.get(name, ()))
        self._check_quiet(command, guests)
        for lease_id in guests:
            engine.handlers.correspondence.tell_no_more(lease_id)
        for correspondent in (name, asking(name)):
            engine.handlers.correspondence.forget(correspondent)
        del self.rows[name]
        self._kept.pop(name, None)
        self._dropped.append(name)
        engine.minutes.line_about_site(name, "peer-removed", now_ms, by=command.by)
        return [*map(CancelRequested, guests), SiteForgotten(name)]

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._kept or self._dropped)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        for name in self._dropped:
            batch.delete(PEERS, name=name)
        batch.upsert(PEERS, list(self._kept.values()))

    def saved(self) -> None:
        """Everything is in the store."""
        self._kept.clear()
        self._dropped.clear()

    def _check_name(self, name: str) -> None:
        gateway = self._engine.gateway
        if name == GATEWAY or name in gateway.sites or name in gateway.registry.remotes:
            raise InvalidField("name", name, "a name that neither this gateway nor one of its sites has")

    def _check_quiet(self, command: RemovePeer, guests: list[int]) -> None:
        name = command.name
        remote = self._engine.gateway.registry.remotes.get(name)
        there = 0 if remote is None else len(remote.leases)
        advice = "wait for their end, or until it has been silent for a minute"
        if there and name not in command.silent:
            raise CannotRemovePeer(name, f"leases of ours are there ({there}); {advice}")
        if guests and asking(name) not in command.silent:
            raise CannotRemovePeer(name, f"leases of its own are here ({len(guests)}); {advice}")


def _terms(row: PeerRow) -> Terms:
    return Terms(AskWhen(row.ask), row.max_vms)
