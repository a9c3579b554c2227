"""``leasehold store``: look at what a gateway keeps, copy it, and put a copy back."""

import json
from pathlib import Path

import pytest
from tests.cli.saying import Cli

from leasehold.service.store.store import open_store


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("LEASEHOLD_DATA", str(folder))
    return folder


@pytest.fixture
def url(data: Path) -> str:
    """The URL of a store that was made, where a gateway would look for it."""
    url = f"sqlite:///{data / 'leasehold.db'}"
    open_store(url).close()
    return url


@pytest.mark.usefixtures("url")
class TestStatus:
    def test_for_people(self, cli: Cli) -> None:
        lines = cli("store", "status").out.splitlines()
        assert [line.split()[0] for line in lines] == ["store", "schema", "gateway", "journal", "leases"]
        assert lines[2:] == ["gateway  not running", "journal  0 lines", "leases   none open"]

    def test_for_programs(self, cli: Cli, url: str) -> None:
        told = json.loads(cli("store", "status", "--json").out)
        assert told["store"] == url
        assert told["schema_is_current"] is True
        assert (told["in_use"], told["last_seq"], told["leases"]) == (False, 0, [])

    def test_while_a_gateway_is_at_work(self, cli: Cli, url: str) -> None:
        with open_store(url) as store:
            store.acquire_writer_lock()
            assert "gateway  is using it" in cli("store", "status").out


class TestMigrate:
    def test_an_empty_file_gets_the_schema(self, cli: Cli, data: Path) -> None:
        (data / "leasehold.db").touch()
        told = json.loads(cli("store", "migrate", "--json").out)
        assert told["before"] is None
        assert told["after"]
        assert "(this program's)" in cli("store", "status").out

    def test_a_store_that_has_it_is_left_alone(self, cli: Cli, url: str) -> None:
        assert url
        assert "had this program's schema already" in cli("store", "migrate").out


class TestCopies:
    def test_a_copy_can_be_put_back(self, cli: Cli, folder: Path, data: Path) -> None:
        open_store(f"sqlite:///{data / 'leasehold.db'}").close()
        assert cli("store", "backup", "copy").out == "The store is in copy.\n"
        assert cli("store", "restore", "copy", "--store", f"sqlite:///{folder / 'other.db'}").code == 0
        assert cli("store", "status", "--store", f"sqlite:///{folder / 'other.db'}").code == 0

    def test_programs_are_told_how_large_it_is(self, cli: Cli, url: str, folder: Path) -> None:
        told = json.loads(cli("store", "backup", "copy", "--json", "--store", url).out)
        assert (told["file"], told["bytes"]) == ("copy", (folder / "copy").stat().st_size)


class TestBadInput:
    @pytest.mark.parametrize("command", [["status"], ["migrate"], ["backup", "copy"]])
    def test_a_store_that_is_not_there_is_not_made(self, command: list[str], cli: Cli, data: Path) -> None:
        ended = cli("store", *command)
        assert ended.code == 2
        assert ended.err.startswith(f"leasehold: {data / 'leasehold.db'}: no such store; `leasehold serve`")
        assert list(data.iterdir()) == []

    def test_what_is_no_copy_is_refused(self, cli: Cli, url: str, folder: Path) -> None:
        (folder / "copy").write_text("no copy")
        ended = cli("store", "restore", "copy", "--store", url)
        assert ended.code == 2
        assert "copy: is not a backup of a store" in ended.err

    def test_a_store_in_use_is_not_replaced(self, cli: Cli, url: str) -> None:
        cli("store", "backup", "copy")
        with open_store(url) as store:
            store.acquire_writer_lock()
            ended = cli("store", "restore", "copy", "--replace")
        assert ended.code == 2
        assert "is in use by another gateway" in ended.err
