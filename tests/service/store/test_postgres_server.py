"""The PostgreSQL server of the tests: there when it is needed, and gone with whoever began it."""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import psycopg
import pytest

from leasehold.testing import postgres
from leasehold.testing.debian import ProgramMissing
from leasehold.testing.postgres import PostgresFailed, PostgresServer, postgres_server

BEGIN_AND_WAIT = """
import sys
from leasehold.testing.postgres import postgres_server
with postgres_server() as server:
    sys.stdout.write(f"{server.pid} {server.folder}\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""
PATIENCE_MS = 30_000


@pytest.fixture(autouse=True)
def installed(postgres: PostgresServer) -> None:
    """Skip, or fail, like every test that needs PostgreSQL where it is not."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made during the test: a place that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield folder


def has_ended(pid: int) -> bool:
    """Wait until a process has ended, ours or not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    watch = select.poll()
    watch.register(process, select.POLLIN)
    ended = watch.poll(PATIENCE_MS)
    os.close(process)
    return bool(ended)


def test_it_serves_databases_by_name() -> None:
    with postgres_server() as server:
        server.make("one")
        address = server.url("one").replace("postgresql+psycopg", "postgresql")
        with psycopg.connect(address) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        server.drop("one")
        with pytest.raises(psycopg.OperationalError, match='database "one" does not exist'):
            psycopg.connect(address)


def run_a_server(seen: list[PostgresServer], error: type[BaseException] | None) -> None:
    with postgres_server() as server:
        seen.append(server)
        assert server.answers()
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_it_ends_with_its_block_however_that_ends(error: type[BaseException] | None) -> None:
    seen: list[PostgresServer] = []
    with nullcontext() if error is None else pytest.raises(error):
        run_a_server(seen, error)
    assert has_ended(seen[0].pid)
    assert not seen[0].folder.exists()


@pytest.mark.parametrize("signal", [SIGINT, SIGTERM, SIGKILL], ids=lambda signal: signal.name)
def test_it_ends_with_the_process_that_began_it(signal: Signals, folder: Path) -> None:
    command = [sys.executable, "-c", BEGIN_AND_WAIT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        pid, home = process.stdout.readline().split()
        process.send_signal(signal)
    assert has_ended(int(pid))
    assert Path(home).parent == folder
    assert Path(home).exists() == (signal != SIGINT)  # only Python's own way out tidies up


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with pytest.raises(PostgresFailed, match="unheard_of"), postgres_server(settings={"unheard_of": "1"}):
        pass
    assert list(folder.glob("leasehold-pg-*")) == []


@pytest.mark.parametrize("user", [0, 1000])
def test_where_it_cannot_be_installed_the_command_that_does_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    """Neither without being root, nor on a system without apt-get."""
    monkeypatch.setenv("LEASEHOLD_INSTALL", "1")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(postgres, "_DEBIAN_BINARIES", folder)
    monkeypatch.setattr(postgres, "_NO_CLUSTER", folder / "createcluster.conf")
    with pytest.raises(ProgramMissing, match=r"run `apt-get install -y postgresql` as root$"):
        postgres.find_binaries()


@pytest.mark.parametrize("agreed", [None, "", "0"])
def test_nothing_is_installed_unless_that_was_agreed_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, agreed: str | None
) -> None:
    """Whoever runs the tests as root has not said yes to packages on the machine."""
    monkeypatch.delenv("LEASEHOLD_INSTALL", raising=False)
    if agreed is not None:
        monkeypatch.setenv("LEASEHOLD_INSTALL", agreed)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a program was run"))
    monkeypatch.setattr(postgres, "_installed", lambda: None)
    monkeypatch.setattr(postgres, "_NO_CLUSTER", folder / "createcluster.conf")
    with pytest.raises(ProgramMissing, match=r"LEASEHOLD_INSTALL=1 is not set.*`apt-get install -y postgresql`"):
        postgres.find_binaries()
    assert not (folder / "createcluster.conf").exists()
