"""A PostgreSQL server for a while: made in a folder of its own, and gone with it.

::

    with postgres_server() as server:
        server.make("one")
        store = open_store(server.url("one"))

It listens on a socket in its folder and nowhere else. Whatever ends the block ends the server, and so does
the end of the process that began it, even by kill -9.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam
from signal import SIGINT, SIGQUIT

import psycopg
from psycopg import sql

from leasehold.model.errors import LeaseholdError
from leasehold.testing.debian import find_or_install, may_install

USER = "leasehold"
PACKAGE = "postgresql"

FAST: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Settings for tests: commits survive a crash of our processes, but not of the machine."""

DURABLE: Mapping[str, str] = {}
"""PostgreSQL's own settings, for measuring."""

_SERVICE_USER = "postgres"  # the server refuses to run as root
_DEBIAN_BINARIES = Path("/usr/lib/postgresql")
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")
_PATIENCE_S = 120
_POLL_S = 0.02


class PostgresFailed(LeaseholdError):
    """The server could not be created or started; contains its output."""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server; its databases are made and dropped by name."""

    folder: Path
    pid: int

    def url(self, database: str) -> str:
        """The URL with which `leasehold.service.store.store.open_store` finds a database of this server."""
        return f"postgresql+psycopg://{USER}@/{database}?host={self.folder}"

    def make(self, database: str) -> None:
        """Make an empty database."""
        self._command("CREATE DATABASE {} TEMPLATE template0", database)

    def drop(self, database: str) -> None:
        """Drop a database, even while it is in use."""
        self._command("DROP DATABASE IF EXISTS {} WITH (FORCE)", database)

    def answers(self) -> bool:
        """Whether it takes connections yet."""
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, command: str, database: str) -> None:
        with self._connect() as connection:
            connection.execute(sql.SQL(command).format(sql.Identifier(database)))

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), user=USER, dbname="postgres", autocommit=True)


@contextmanager
def postgres_server(folder: Path | None = None, settings: Mapping[str, str] = FAST) -> Iterator[PostgresServer]:
    """Make a server, run it for the length of the block, and remove it.

    ``folder`` is where the folder of the server is made: a place that PostgreSQL's user can reach, with a
    short path. ProgramMissing where PostgreSQL is not installed; PostgresFailed where it does
    not start.
    """
    binaries = find_binaries()
    home = Path(tempfile.mkdtemp(prefix="leasehold-pg-", dir=folder))
    try:
        _hand_over(home)
        _make_cluster(binaries, home)
        with _running(binaries, home, settings) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


def find_binaries() -> Path:
    """Find the folder of initdb and postgres, as `find_or_install` does."""
    if _installed() is None and may_install():
        _start_no_cluster_at_install()
    return find_or_install(_installed, "PostgreSQL", PACKAGE)


def _installed() -> Path | None:
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    versions = (postgres.parent for postgres in _DEBIAN_BINARIES.glob("*/bin/postgres"))
    return max(versions, key=lambda binaries: float(binaries.parent.name), default=None)


def _start_no_cluster_at_install() -> None:
    """Stop Debian's package from creating and starting a server of its own."""
    if os.geteuid() == 0 and not _NO_CLUSTER.exists():
        _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        _NO_CLUSTER.write_text("create_main_cluster = false\n")


def _hand_over(home: Path) -> None:
    if os.geteuid() == 0:
        user = getpwnam(_SERVICE_USER)
        os.chown(home, user.pw_uid, user.pw_gid)


def _as_its_user(*command: str | Path) -> list[str | Path]:
    """Wrap a command to run as a user other than root, and to end with this process."""
    prefix = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
    if os.geteuid() == 0:
        prefix += ["--reuid", _SERVICE_USER, "--regid", _SERVICE_USER, "--clear-groups"]
    return [*prefix, *command]


def _make_cluster(binaries: Path, home: Path) -> None:
    options = ("--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale", "--no-sync")
    command = _as_its_user(binaries / "initdb", f"--pgdata={home / 'data'}", *options)
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise PostgresFailed(f"initdb in {home}: {done.stderr.strip()}")


@contextmanager
def _running(binaries: Path, home: Path, settings: Mapping[str, str]) -> Iterator[PostgresServer]:
    fixed = {"listen_addresses": "", "unix_socket_directories": str(home)}
    options = [f"-c{name}={value}" for name, value in (fixed | dict(settings)).items()]
    command = _as_its_user(binaries / "postgres", f"-D{home / 'data'}", *options)
    log = home / "log"
    with log.open("wb") as output:
        # a session of its own: Ctrl-C is for us, and we stop the server when we are done
        process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    server = PostgresServer(home, process.pid)
    try:
        _wait_for_answer(process, server, log)
        yield server
    finally:
        _stop(process)


def _wait_for_answer(process: subprocess.Popen[bytes], server: PostgresServer, log: Path) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not server.answers():
        if process.poll() is not None or time.monotonic() > give_up_s:
            raise PostgresFailed(f"postgres in {server.folder}: {log.read_text().strip()}")
        time.sleep(_POLL_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Fast shutdown; immediate where that takes too long. The server ends its own children in both."""
    process.send_signal(SIGINT)
    try:
        process.wait(_PATIENCE_S)
    except BaseException:
        process.send_signal(SIGQUIT)
        process.wait()
        raise
