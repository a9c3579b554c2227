"""Links to peers: this gateway calls each of them, as a site calls its gateway, so that it can be asked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkstemp

from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.auth.bootstrap_token import read_token_file
from leasehold.service.messages.endpoints import asking
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.messages.uplink import Uplink
from leasehold.service.store.rows import PeerRow
from leasehold.service.surroundings import Surroundings

_PRIVATE = 0o700

StatusFor = Callable[[PeerRow], Awaitable[SiteStatus]]
"""Says what a peer is to know of us."""


class PeerCredentials:
    """The tokens that we show to peers: one file for each, by the peer's name, that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Whether there is a token to show to a peer."""
        return self._path(name).exists()

    def read(self, name: str) -> str:
        """Give the token to show to a peer; raises InputError where there is none, or others can read it."""
        return read_token_file(self._path(name))

    def put(self, name: str, token: str) -> None:
        """Keep a token: all of it or nothing, readable by its owner only; raises InputError."""
        try:
            self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            descriptor, temporary = mkstemp(dir=self._folder, prefix=f".{name}.")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{token}\n")
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(self._path(name))
        except OSError as error:
            raise InputError(self._path(name), None, f"cannot be written: {error.strerror}") from None

    def drop(self, name: str) -> None:
        """Remove a token, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.token"


@dataclass(slots=True)
class _Link:
    """One link, while it is open; ``problem`` says why it cannot even be tried."""

    uplink: Uplink | None = None
    task: asyncio.Task[None] | None = None
    problem: str = ""


class PeerLinks:
    """The links to all peers that are called."""

    def __init__(
        self, messages: MessageRouter, status_for: StatusFor, credentials: PeerCredentials, surroundings: Surroundings
    ) -> None:
        self._messages = messages
        self._status_for = status_for
        self._credentials = credentials
        self._surroundings = surroundings
        self._links: dict[str, _Link] = {}

    async def open(self, peer: PeerRow) -> None:
        """Call a peer from now on, as it is now; one without an address is not called."""
        await self.close(peer.name)
        if not peer.url:
            return
        link = self._links[peer.name] = _Link()
        try:
            token = await asyncio.to_thread(self._credentials.read, peer.name)
        except LeaseholdError as error:
            link.problem = str(error)
            return
        status = partial(self._status_for, peer)
        transport = self._surroundings.transport()
        link.uplink = Uplink(self._messages, status, peer.url, token, endpoint=asking(peer.name), transport=transport)
        link.task = asyncio.create_task(link.uplink.run())

    async def close(self, name: str) -> None:
        """Stop calling a peer."""
        link = self._links.pop(name, None)
        if link is not None and link.task is not None:
            link.task.cancel()
            await asyncio.gather(link.task, return_exceptions=True)

    async def close_all(self) -> None:
        """Stop calling all peers."""
        for name in list(self._links):
            await self.close(name)

    def problem(self, name: str) -> str:
        """Say why a peer cannot be reached now, "" while it can, or is not called."""
        link = self._links.get(name)
        if link is None:
            return ""
        return link.problem if link.uplink is None else link.uplink.problem
