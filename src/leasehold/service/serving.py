"""A gateway as a process: opened, listening, stopped by a signal, and closed without losing anything.

In this order: what may listen is bound, so that a port in use is known before anything is touched; the store
is opened and locked; the sites' machines are looked at and every promise is checked; the first token is
made; and only then are requests answered. Stopping goes back the same way.
"""

import asyncio
import fcntl
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import mkstemp
from urllib.parse import urlsplit

import structlog
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from sqlalchemy import URL
from uvicorn.loops.auto import auto_loop_factory

from leasehold import __version__
from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.api.app import Api, create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.bootstrap_token import bootstrap_admin_token
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.sessions import KEY_FILE, session_key
from leasehold.service.auth.tokens import Tokens
from leasehold.service.clock import SteadyClock
from leasehold.service.config import Limits, ServiceConfig, ServiceSpec
from leasehold.service.connections import (
    Connections,
    fitting_descriptors,
    protocol_of,
    raise_descriptor_limit,
)
from leasehold.service.engine.context import last_written_ms
from leasehold.service.federation import Federation
from leasehold.service.logs import RequestLog, set_levels
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store
from leasehold.service.tls import check_key_pair

ADDRESS_FILE = "url"
STORE_FILE = "leasehold.db"
READERS = 4
"""How many threads at a time make pages of what is in the store."""

LONGEST_TURN_S = 0.001
"""After how long Python lets another thread have its turn; the default is five times that."""

_PRIVATE = 0o700
_FOR_NOBODY_ELSE = 0o077
_OURS = frozenset({ADDRESS_FILE, STORE_FILE, "admin.token", "demo", "images", "leasehold.toml", "machines", KEY_FILE})
"""What makes a folder one of ours; whatever else is in it may be there for others."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where a gateway keeps its things.

    ``folder``  its token and its address, which the command line on this machine looks for
    ``work``    the store, where that is a file, and the emulated machines
    """

    folder: Path
    work: Path

    def store_url(self, service: ServiceSpec) -> str:
        """Give the URL of the store: that of the configuration, or a file of our own."""
        own = URL.create("sqlite", database=str(self.work / STORE_FILE))
        return service.store or own.render_as_string()

    @property
    def address_file(self) -> Path:
        """Where the address is written down at which it listens, for as long as it does."""
        return self.folder / ADDRESS_FILE

    def make(self) -> None:
        """Make the folders where they are missing, readable by their owner only; raises InputError.

        A data folder that other users can enter is made private; a folder of another owner, or with other
        files in it, is rejected.
        """
        for folder in (self.folder, self.work):
            try:
                folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
                _close_to_others(folder)
            except OSError as error:
                raise InputError(folder, None, f"cannot be a data folder: {error.strerror}") from None


def _close_to_others(folder: Path) -> None:
    """Close a folder to others; raises InputError where that is not for us to do."""
    found = folder.stat()
    is_ours = found.st_uid == os.geteuid()
    if not found.st_mode & (0o077 if is_ours else 0o007):  # the group of a folder that was given to us is meant
        return
    names = {path.name for path in folder.iterdir()}
    if not is_ours or (names and not names & _OURS):
        mode = found.st_mode & 0o777
        raise InputError(folder, None, f"is open to others (mode {mode:o}), expected a data folder: chmod 700")
    folder.chmod(_PRIVATE)


@dataclass(frozen=True, slots=True)
class Listening:
    """A gateway that answers, at ``url``; ``token_file`` has its administrator's token, None: it has none.

    ``sign_in`` makes an address that signs a browser in for the bearer of a token, while the gateway runs.
    """

    url: str
    token_file: Path | None
    federation: Federation
    sign_in: Callable[[str], str]


Companion = Callable[[Listening], Awaitable[None]]
"""Runs beside a gateway for as long as it listens; it is cancelled when the gateway stops."""


async def serve(
    config: ServiceConfig,
    data: DataFolder,
    companion: Companion,
    reread: Callable[[], ServiceConfig] | None = None,
) -> None:
    """Run a gateway until SIGTERM or SIGINT; at SIGHUP, apply the configuration that ``reread`` returns.

    Raises InputError and InvalidField if it cannot start, InvariantBroken if the store is inconsistent.
    """
    service, metrics = config.service, Metrics()
    if service.tls_certificate and service.tls_key:
        check_key_pair(service.tls_certificate, service.tls_key)
    data.make()
    descriptors = raise_descriptor_limit()
    store_url = data.store_url(service)
    with (
        _files_for_nobody_else(),
        bound(service.host, service.port) as listener,
        collecting_little_garbage(),
        open_store(store_url) as store,
    ):
        clock = SteadyClock(last_written_ms(store))
        metrics.watch_clock(clock.ahead_s)
        async with Federation.open(config, store, data.work, clock, metrics) as federation:
            federation.health.ahead_s = clock.ahead_s
            _let_the_engine_go_first()
            token_file = bootstrap_admin_token(store, data.folder, clock())
            app = _application(config, federation, session_key(data.folder))
            url = _url(service, listener)
            listening = Listening(
                url, token_file, federation, lambda token: f"{url}/sign-in?code={app.state.sessions.link(token)}"
            )
            connections = Connections(fitting_descriptors(config.limits.connections(), descriptors))
            server = Server(_uvicorn_config(app, service), connections, lambda: companion(listening))
            keep_what_was_read()
            with (
                announced(data.address_file, listening.url),
                _stopping_on_signals(server, app),
            ):
                if reread is not None:
                    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _Reloading(federation, reread))
                await server.serve(sockets=[listener])


def loop_for(service: ServiceSpec) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Choose the event loop: uvloop where it is installed, and asyncio's own behind TLS.

    uvloop reads from a new connection whatever its protocol says, so that the first words of a handshake are
    lost where it is begun by ourselves (`Handshake`).
    """
    return None if service.tls_certificate else auto_loop_factory()


def _let_the_engine_go_first() -> None:
    """Let few threads read beside the engine, and none of them keep the processor for long.

    Python runs one thread at a time. A dozen that make pages of a thousand leases would each have its turn
    before the one that decides.
    """
    current_default_thread_limiter().total_tokens = READERS
    sys.setswitchinterval(LONGEST_TURN_S)


@contextmanager
def _files_for_nobody_else() -> Generator[None, None, None]:
    """Let only this user read what is written, machines' files included, whatever is usual for others."""
    before = os.umask(_FOR_NOBODY_ELSE)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def collecting_little_garbage() -> Generator[None, None, None]:
    """Collect reference cycles only among new objects, and none before `keep_what_was_read`.

    A hundred thousand leases and their nodes have no cycles, and looking through all of them would block
    all requests for a second, and a restart for several. So objects that exist at the start, or have since
    outlived the second generation, are not scanned.
    """

    def let_the_old_be(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] > 0:
            gc.freeze()

    before = gc.get_threshold()
    gc.collect()
    gc.disable()
    gc.set_threshold(50_000, 4, 1_000_000)
    gc.callbacks.append(let_the_old_be)
    try:
        yield
    finally:
        gc.callbacks.remove(let_the_old_be)
        gc.set_threshold(*before)
        gc.enable()


def keep_what_was_read() -> None:
    """Scan no object that exists now: the gateway is open, and what it has read is here to stay."""
    gc.freeze()
    gc.enable()


class Server(uvicorn.Server):
    """uvicorn, with a companion that comes and goes with it, and with signals left to us."""

    def __init__(
        self, config: uvicorn.Config, connections: Connections, companion: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._companion = companion
        self._beside: asyncio.Future[None] | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone: uvicorn would raise them again in the end, and cut our own ending short."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        config, loop = self.config, asyncio.get_running_loop()
        make = protocol_of(self._connections, config.ssl, config=config, server_state=self.server_state, app_state={})
        self.servers = [await loop.create_server(make, sock=one, backlog=config.backlog) for one in sockets or []]
        self.started = True
        self._beside = asyncio.ensure_future(self._accompany())
        notify(READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the companion go, then finish what is under way."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.gather(self._beside, return_exceptions=True)
        for one in self.servers:
            one.close()
        self._connections.drop_handshakes()
        await super().shutdown(sockets)

    async def _accompany(self) -> None:
        """A companion that fails is a pity, and no reason to stop serving."""
        try:
            await self._companion()
        except Exception:  # noqa: BLE001 - whatever it is
            structlog.get_logger("leasehold.serving").exception("companion failed")


@contextmanager
def _stopping_on_signals(server: Server, app: Api) -> Generator[None, None, None]:
    """Stop at the first SIGTERM or SIGINT, and at the second without waiting."""

    def stop() -> None:
        notify(STOPPING)
        app.close_streams()
        server.force_exit = server.should_exit
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Reloading:
    """Called at each SIGHUP; says in the log what came of it."""

    def __init__(self, federation: Federation, reread: Callable[[], ServiceConfig]) -> None:
        self._federation = federation
        self._reread = reread
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self) -> None:
        log = structlog.get_logger("leasehold.serving")
        try:
            outcome = await self._federation.reload(await asyncio.to_thread(self._reread))
        except LeaseholdError as error:
            log.error("configuration not reloaded", cause=str(error))  # noqa: TRY400 - the cause says it all
            return
        set_levels(outcome.config.log)
        log.info(
            "configuration reloaded",
            applied=list(outcome.applied),
            needs_restart=list(outcome.needs_restart),
        )


def _application(config: ServiceConfig, federation: Federation, key: bytes) -> Api:
    tokens = Tokens(federation.store, federation.clock)
    authenticator = Authenticator(tokens, Jwts(config.issuers, federation.clock))
    return create_app(federation, authenticator, tokens, _api_settings(config.service, config.limits, key))


def _api_settings(service: ServiceSpec, limits: Limits, key: bytes) -> ApiSettings:
    return ApiSettings(
        version=__version__,
        body_kib=limits.body_kib,
        rate=RateLimit(limits.requests_per_s, limits.burst),
        submissions=RateLimit(limits.submissions_per_hour / 3600, max(1, limits.submissions_per_hour)),
        streams_per_consumer=limits.streams_per_consumer,
        probes_need_token=service.needs_token(service.probes),
        metrics_need_token=service.needs_token(service.metrics),
        page_needs_token=service.needs_token(service.page),
        session_key=key,
        prefix=urlsplit(service.url).path.rstrip("/"),
    )


def _uvicorn_config(app: Api, service: ServiceSpec) -> uvicorn.Config:
    return uvicorn.Config(
        RequestLog(app),
        log_config=None,  # `leasehold.service.logs` has settled it
        access_log=False,  # `RequestLog` says more
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=service.behind_tls_proxy,
        ssl_certfile=service.tls_certificate,
        ssl_keyfile=service.tls_key,
        timeout_graceful_shutdown=ceil(service.shutdown_ms / 1000),
    )


def bound(host: str, port: int) -> socket.socket:
    """Take an address, without answering there yet; raises InputError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InputError(f"{host} port {port}", None, f"cannot be bound: {error.strerror}") from None
    return listener


def _url(service: ServiceSpec, listener: socket.socket) -> str:
    """Say under which address it is reached; one that stands for all is reached at this machine's own."""
    if service.url:
        return service.url
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - this listens nowhere
    scheme = "https" if service.tls_certificate else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@contextmanager
def announced(path: Path, url: str) -> Iterator[None]:
    """Have the file at ``path`` say ``url`` while the block lasts; it is locked before it can be seen.

    A client that reads it may send the administrator's token to that address, and once the gateway is dead, any
    process on the machine may listen there. So the gateway holds the file locked while it lives, which only a living
    process can; `leasehold.client` looks at that lock.
    """
    descriptor, temporary = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{url}\n")
        file.flush()
        Path(temporary).replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Tell systemd a state such as `READY`, see sd_notify(3), by the socket that it names; without one do nothing."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # a name that is in no folder, see unix(7)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaking:
        try:
            speaking.connect(address)
            speaking.sendall(state.encode())
        except OSError:
            return
