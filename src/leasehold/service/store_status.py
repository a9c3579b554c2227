"""The status of a store, read from outside, whether or not a gateway uses it; nothing in it is changed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import URL, Engine, text

from leasehold.model.errors import InputError
from leasehold.service.engine.remote_sites import stored_remotes
from leasehold.service.store.errors import translated
from leasehold.service.store.reading import Reading
from leasehold.service.store.store import current_revision, needs_migration
from leasehold.service.store.store_url import read_url, reading_engine, sqlite_path, writing_engine
from leasehold.service.store.writer_lock import AdvisoryLock, FileLock

_SERVER_MS = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_LAST_LINE_MS = text("SELECT at_ms FROM journal ORDER BY seq DESC LIMIT 1")


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a store: live leases by site and state, and the number of its last journal line.

    ``remotes``   the sites that have called, and decide for themselves
    ``held_vms``  how many VMs leases hold, by site
    """

    leases: dict[tuple[str, str], int]
    last_seq: int
    remotes: frozenset[str] = frozenset()
    held_vms: Mapping[str, int] = field(default_factory=dict)

    @property
    def sites(self) -> set[str]:
        """Where live leases are, "" being the gateway."""
        return {site for site, _ in self.leases}


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How a store is.

    ``url``        without its password
    ``revision``   of its schema, None where there is none yet
    ``in_use``     whether a gateway has it
    ``latest_ms``  its time: that of its server, or of the last line written to its file (0: there is none)
    ``contents``   None where the schema is older than this program
    """

    url: str
    revision: str | None
    in_use: bool
    latest_ms: int
    contents: Contents | None


def look_at(url_text: str) -> StoreStatus:
    """Look at the store at a URL.

    Raises InvalidField where that names none, InputError where it is not there or newer than this program,
    StoreUnavailable where it does not answer.
    """
    url = existing(url_text)
    with translated(f"store {url}"), _disposed(reading_engine(url)) as engine:
        with engine.connect() as connection:
            revision, is_old = current_revision(connection), needs_migration(connection)
        return StoreStatus(
            url=str(url),
            revision=revision,
            in_use=_is_in_use(url),
            latest_ms=_latest_ms(engine, is_old=is_old),
            contents=None if is_old else _contents(Reading(engine)),
        )


def existing(url_text: str) -> URL:
    """Read the URL of a store that should be there already; raises InvalidField and InputError."""
    url = read_url(url_text)
    path = sqlite_path(url)
    if path is not None and not path.is_file():
        raise InputError(path, None, "no such store; `leasehold serve` makes it at its first start")
    return url


def _contents(reading: Reading) -> Contents:
    return Contents(
        reading.count_by_state(),
        reading.last_seq(),
        frozenset(stored_remotes(reading)),
        reading.held_vms(),
    )


def _latest_ms(engine: Engine, *, is_old: bool) -> int:
    """A server has a clock whatever is in its database; the lines of an older schema are not read."""
    is_file = engine.dialect.name == "sqlite"
    if is_file and is_old:
        return 0
    query = _LAST_LINE_MS if is_file else _SERVER_MS
    with engine.connect() as connection:
        return int(connection.execute(query).scalar() or 0)


def _is_in_use(url: URL) -> bool:
    """Try to acquire its lock, and release it at once; a lock that does not exist is not made."""
    path = sqlite_path(url)
    if path is not None and not path.with_name(f"{path.name}.lock").exists():
        return False
    lock = AdvisoryLock() if path is None else FileLock(path)
    with _disposed(writing_engine(url)) as engine, engine.connect() as connection:
        try:
            return not lock.acquire(connection)
        finally:
            lock.release()


@contextmanager
def _disposed(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()
