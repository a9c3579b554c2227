"""The sites of one engine: which of them lend, who said so, and what is to be written of that."""

from typing import TYPE_CHECKING

from leasehold.model.event import Event, LendingChanged, SiteForgotten
from leasehold.service.commands import Drain, ForgetSite, Undrain
from leasehold.service.errors import CannotForget, NoSuchSite
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import SITES, SiteRow

if TYPE_CHECKING:
    from leasehold.service.engine.engine import Engine


class SiteBook:
    """Reads what is said about sites."""

    def __init__(self, engine: "Engine") -> None:
        """Begin with nothing to write."""
        self._engine = engine
        self._changed: dict[str, SiteRow] = {}

    def drain(self, command: Drain, now_ms: int) -> list[Event]:
        """Let a site take no new guests; raises NoSuchSite."""
        self._check(command.site)
        self._changed[command.site] = SiteRow(
            name=command.site,
            drained_ms=now_ms,
            drained_by=command.by,
            note=command.note,
        )
        told = {"by": command.by, "note": command.note}
        self._engine.minutes.line_about_site(command.site, "drained", now_ms, **told)
        return [LendingChanged(command.site, lends=False)]

    def undrain(self, command: Undrain, now_ms: int) -> list[Event]:
        """Let a site take guests again; raises NoSuchSite."""
        self._check(command.site)
        self._changed[command.site] = _lending(command.site)
        self._engine.minutes.line_about_site(command.site, "resumed", now_ms, by=command.by)
        return [LendingChanged(command.site, lends=True)]

    def forget(self, command: ForgetSite, now_ms: int) -> list[Event]:
        """Let go of a site that decides for itself; raises NoSuchSite, CannotForget."""
        self._check(command.site)
        remote = self._engine.gateway.registry.remotes.get(command.site)
        if remote is None:
            raise CannotForget(command.site, "it is the gateway's own; take it out of the configuration")
        if not remote.silent:
            raise CannotForget(command.site, "it is in touch; stop its manager, and wait a minute")
        self._engine.handlers.correspondence.forget(command.site)
        self._changed[command.site] = _lending(command.site)
        self._engine.minutes.line_about_site(command.site, "forgotten", now_ms, by=command.by)
        return [SiteForgotten(command.site)]

    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        batch.upsert(SITES, list(self._changed.values()))

    def saved(self) -> None:
        """Everything is in the store."""
        self._changed.clear()

    def _check(self, site: str) -> None:
        gateway = self._engine.gateway
        remote = gateway.registry.remotes.get(site)
        if site not in gateway.sites and (remote is None or remote.is_peer):
            remotes = (name for name, remote in gateway.registry.remotes.items() if not remote.is_peer)
            raise NoSuchSite(site, [*gateway.sites, *remotes])


def _lending(site: str) -> SiteRow:
    return SiteRow(
        name=site,
        drained_ms=None,
        drained_by="",
        note="",
    )
