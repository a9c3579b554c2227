"""A gateway or a site manager as users meet it: a process that listens, is killed, and is started again."""

import asyncio
import os
import signal
import socket
import sys
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from tests.service.crash.gateway import log_errors
from tests.service.crash.witness import Witness

from leasehold.client import AsyncClient
from leasehold.client.calls import RetryPolicy
from leasehold.service.auth.bootstrap_token import FILE_NAME
from leasehold.service.config import LogSpec, ServiceConfig
from leasehold.service.logs import set_up_logs
from leasehold.service.messages import uplink
from leasehold.service.serving import DataFolder, Listening, serve
from leasehold.service.store.store import Store, open_store
from leasehold.testing.killable import Killable

PATIENCE = RetryPolicy(tries=1_000, connect_tries=1_000, first_s=0.02, longest_s=0.1)
_QUICKLY_S = 0.05
_AT_ONCE_S = 15
_COMES_UP_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Line:
    """How a site manager reaches its gateway."""

    gateway_url: str
    token: str
    site: str


def be_served(connection: Connection, config: ServiceConfig, place: DataFolder, line: Line | None) -> None:
    """Serve until the pipe says or breaks anything."""
    log_errors(place.folder / "errors.log")
    set_up_logs(LogSpec(format="json", level="error"), sys.stderr)
    uplink._SHORTEST_PAUSE_S = uplink._LONGEST_PAUSE_S = _QUICKLY_S

    def stop() -> None:
        asyncio.get_running_loop().remove_reader(connection.fileno())
        os.kill(os.getpid(), signal.SIGTERM)

    async def accompany(listening: Listening) -> None:
        asyncio.get_running_loop().add_reader(connection.fileno(), stop)
        connection.send("ready")
        if line is not None:
            home = listening.federation
            status = home.sites.own_status
            await uplink.Uplink(
                home.messages, home.gateway_files, status, line.gateway_url, line.token, site=line.site
            ).run()

    asyncio.run(serve(config, place, accompany))


class Served:
    """One of them, through all its lives: always under the same address, always with the same store."""

    def __init__(self, config: ServiceConfig, folder: Path, line: Line | None = None) -> None:
        folder.mkdir(mode=0o700)
        self.witness = Witness()
        self.place = DataFolder(folder, folder / "work")
        self._port = _kept_port()
        number = self._port.getsockname()[1]
        self._config = replace(config, service=replace(config.service, port=number))
        self._line = line
        self.url = f"http://127.0.0.1:{number}"
        self.start()

    def start(self) -> None:
        """Begin a life."""
        self._process = Killable(be_served, self._config, self.place, self._line)

    async def ready(self) -> None:
        """Wait until it answers."""
        try:
            said = await asyncio.to_thread(self._process.hear, _COMES_UP_WITHIN_S)
        except EOFError:
            said = []
        assert said, f"{self.url} does not come up:\n{self.errors()}"

    def kill(self) -> None:
        """End a life."""
        self._process.close()

    def stop(self) -> None:
        """End the last life in good order."""
        with self._process as process:
            process.tell("stop")
            status = process.ended()
        self._port.close()
        assert status == 0, f"it stopped with status {status}:\n{self.errors()}"

    def leave(self) -> None:
        """Leave nothing behind, whatever has happened."""
        self._process.close()
        self._port.close()

    def client(self, token: str = "") -> AsyncClient:
        """Somebody who does not give up; the administrator unless another token is shown."""
        return AsyncClient(self.url, token or self.token(), retry=PATIENCE, timeout_s=_AT_ONCE_S)

    def token(self) -> str:
        """The administrator's token."""
        return (self.place.folder / FILE_NAME).read_text(encoding="utf-8").strip()

    def errors(self) -> str:
        """What it said when something went wrong."""
        return (self.place.folder / "errors.log").read_text(encoding="utf-8")

    def store(self) -> Store:
        """Its store, when it has stopped."""
        return open_store(self.place.store_url(self._config.service))


def _kept_port() -> socket.socket:
    """A port of our own: bound here for good, so that nobody else is given it while a server is dead."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept
