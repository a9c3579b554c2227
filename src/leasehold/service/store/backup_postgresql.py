"""Backups of PostgreSQL stores: by pg_dump and pg_restore, in their custom format.

A store has a database to itself; all of the database is copied.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import URL

from leasehold.model.errors import InputError
from leasehold.service.store.store import Store

_DEBIAN_BINARIES = Path("/usr/lib/postgresql")
_REVISION = re.compile(r"^COPY \S*alembic_version .*\n(\S+)$", re.MULTILINE)


def save(store: Store, path: Path) -> None:
    """Copy the store as it is at this moment."""
    _run_on(store.url, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={path}")


def revision(path: Path) -> str:
    """Read the copy, and say which schema it has."""
    _run(path, "pg_restore", "--file=/dev/null", str(path))
    version = _run(path, "pg_restore", "--data-only", "--table=alembic_version", "--file=-", str(path))
    found = _REVISION.search(version)
    if found is None:
        raise InputError(path, None, "is a copy of a database that is no store")
    return found[1]


def load(path: Path, store: Store) -> None:
    """Put the copy in the place of what is in the store, in one transaction."""
    wholly = ("--single-transaction", "--exit-on-error", "--clean", "--if-exists")
    _run_on(store.url, "pg_restore", *wholly, "--no-owner", "--no-privileges", str(path))


def _run_on(url: URL, program: str, *arguments: str) -> None:
    """Run a program on the database at ``url``; other users of the machine do not see the password."""
    # made anew: URL.set(password=None) leaves the password as it is
    address = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    password = {} if url.password is None else {"PGPASSWORD": str(url.password)}
    _run(url, program, f"--dbname={address.render_as_string()}", *arguments, environment=password)


def _run(about: object, program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a program, and give what it prints; InputError with its first complaint where it fails."""
    done = subprocess.run(  # noqa: S603 - one of two programs, with arguments that no shell reads
        [_find(program), *arguments],
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        complaint = done.stderr.strip().partition("\n")[0]
        raise InputError(about, None, complaint or f"{program} ended with {done.returncode}")
    return done.stdout


def _find(program: str) -> str:
    """The newest of its kind: it reads and writes for all older servers."""
    newest = max(_DEBIAN_BINARIES.glob(f"*/bin/{program}"), key=_version, default=None)
    found = str(newest) if newest else shutil.which(program)
    if found is None:
        raise InputError(program, None, "is not installed: `apt-get install -y postgresql-client` as root")
    return found


def _version(program: Path) -> float:
    return float(program.parent.parent.name)
