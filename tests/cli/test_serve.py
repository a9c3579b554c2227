"""``leasehold serve`` as somebody meets it who types it: its configuration, its greeting, its end."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli

from leasehold.client import Client, LeaseSpec

CONFIG = '[service]\nport = 0\n\n[[cluster]]\nname = "das3"\nslots = 8\n'


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep whatever is made away from this user's own gateway."""
    for name in ("LEASEHOLD_URL", "LEASEHOLD_TOKEN", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("leasehold.client.access._SHARED", tmp_path / "shared")
    monkeypatch.setenv("LEASEHOLD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@contextmanager
def serving(*arguments: str) -> Iterator[dict[str, Any]]:
    """Start a gateway, wait until it says that it listens, and stop it in the end."""
    command = [sys.executable, "-m", "leasehold.cli.main", "serve", "--port", "0", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        told = []
        for line in lines:
            told.append(line)
            if line.startswith("}"):
                break
        try:
            yield json.loads("".join(told))
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
    assert process.returncode == 0, said


class TestConfiguration:
    def test_without_any_one_emulated_site_is_served(self, cli: Cli) -> None:
        said = cli("serve", "--print-config", "--json")
        configuration = json.loads(said.out)["configuration"]
        [only] = configuration["cluster"]
        assert only | {"name": "local", "slots": 16, "driver": "emulated"} == only
        assert configuration["service"]["host"] == "127.0.0.1"

    def test_what_is_printed_can_be_used_as_it_is(self, cli: Cli, folder: Path) -> None:
        printed = cli("serve", "--demo", "--print-config").out
        (folder / "mine.toml").write_text(printed)
        assert cli("serve", "--config", "mine.toml", "--print-config").out == printed

    def test_one_in_the_data_folder_is_found_there(self, cli: Cli, data: Path) -> None:
        data.mkdir()
        (data / "leasehold.toml").write_text(CONFIG)
        assert 'name = "das3"' in cli("serve", "--print-config").out

    def test_options_have_the_last_word(self, cli: Cli, folder: Path) -> None:
        (folder / "mine.toml").write_text(CONFIG)
        said = cli("serve", "--config", "mine.toml", "--port", "9000", "--host", "::1", "--print-config", "--json")
        service = json.loads(said.out)["configuration"]["service"]
        assert (service["port"], service["host"]) == (9000, "::1")


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--host", "192.0.2.1"], "service.host: got '192.0.2.1', expected a loopback address"),
            (["--port", "70000"], "--port: got '70000', expected at most 65535"),
            (["--demo", "--config", "mine.toml"], "--demo: got 'mine.toml', expected no --config"),
            (["--config", "missing.toml"], "missing.toml: cannot be read: No such file or directory"),
            (["--config", "mine.toml"], "mine.toml:7: cluster[0].slotz: got 'slotz'"),
            (["--store", "store.db"], "store: got 'store.db', expected sqlite:///PATH"),
        ],
    )
    def test_is_one_line(self, arguments: list[str], said: str, cli: Cli, folder: Path) -> None:
        (folder / "mine.toml").write_text(CONFIG + "slotz = 3\n")
        ended = cli("serve", *arguments)
        assert ended.code == 2
        assert said in ended.err
        assert ended.err.count("\n") == 1

    def test_a_port_in_use_is_said_before_anything_is_touched(self, cli: Cli, data: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as other:
            port = str(other.getsockname()[1])
            ended = cli("serve", "--port", port)
        assert ended.code == 2
        assert f"127.0.0.1 port {port}: cannot be bound: Address already in use" in ended.err
        assert not (data / "leasehold.db").exists()


class TestServing:
    def test_says_where_it_is_and_the_client_beside_it_finds_it(self, data: Path) -> None:
        with serving() as told:
            assert told["data"] == str(data)
            assert told["token_file"] == str(data / "admin.token")
            assert told["sites"] == ["local"]
            with Client() as client:
                assert client.access.url == told["url"]
                assert client.leases.submit(LeaseSpec(type="suspendable", vms=2, duration_s=60)).vms == 2

    def test_people_are_told_what_to_type_next(self, folder: Path) -> None:
        (folder / "mine.toml").write_text(CONFIG + '\n[log]\nformat = "console"\n')
        command = [sys.executable, "-m", "leasehold.cli.main", "serve", "--config", "mine.toml"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            greeting = [next(process.stderr) for _ in range(9)]
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate()
        assert process.returncode == 0
        assert "serves das3 (8 VMs, emulated)" in greeting[0]
        assert greeting[1].split()[0] == "address"
        assert greeting[4].strip() == "Owners lend to:"
        assert greeting[5].split() == [
            "das3",
            *["guests", "that", "can", "be", "preempted;", "no", "Non-preemptable", "ones"],
        ]
        assert greeting[6].strip().startswith("without an agreement: members' guests that can be preempted")
        assert greeting[8].strip() == "leasehold lease submit --type suspendable --duration 60"
        assert "Stopped" in rest.splitlines()[-1]

    @pytest.mark.soak
    def test_two_gateways_do_not_share_a_store(self, data: Path) -> None:
        with serving():
            command = [sys.executable, "-m", "leasehold.cli.main", "serve", "--port", "0"]
            second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert second.stderr == f"leasehold: sqlite:///{data / 'leasehold.db'}: is in use by another gateway\n"

    def test_a_data_folder_that_is_none(self, cli: Cli, data: Path) -> None:
        data.write_text("a file")
        ended = cli("serve", "--port", "0")
        assert ended.code == 2
        assert ended.err == f"leasehold: {data}: cannot be a data folder: File exists\n"
