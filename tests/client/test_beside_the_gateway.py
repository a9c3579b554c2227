"""On a gateway's own machine: the administrator's token is shown to that gateway, and only while it lives."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.client.gateway import Gateway, Reply, lease

from leasehold.client import AsyncClient, Client, RetryPolicy, Unreachable
from leasehold.client.access import ADMIN_TOKEN, URL, is_at_work
from leasehold.service.serving import announced

NOT_AGAIN = RetryPolicy(tries=1, connect_tries=1, first_s=0)
LIVE = """
import sys
from pathlib import Path
from leasehold.service.serving import announced

with announced(Path(sys.argv[1]), sys.argv[2]):
    print("here", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, gateway: Gateway) -> Path:
    """The data folder that the environment names, with a token; the gateway would answer."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / ADMIN_TOKEN).write_text("lh_secret\n")
    gateway.answer("GET", "/v1/leases/42", Reply(body=lease()))
    return folder


@contextmanager
def another_process(folder: Path, url: str) -> Iterator["subprocess.Popen[str]"]:
    """Have a process announce itself in the folder."""
    command = [sys.executable, "-c", LIVE, str(folder / URL), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_gateway_at_work_is_shown_the_token(folder: Path, gateway: Gateway) -> None:
    with announced(folder / URL, gateway.url), Client(retry=NOT_AGAIN) as client:
        assert client.leases.get(42).id == 42
    assert [asked.headers["authorization"] for asked in gateway.asked] == ["Bearer lh_secret"]


def test_one_that_has_stopped_has_left_no_address(folder: Path, gateway: Gateway) -> None:
    with announced(folder / URL, gateway.url):
        assert is_at_work(folder)
    assert not is_at_work(folder)
    assert list(folder.iterdir()) == [folder / ADMIN_TOKEN]


def test_whoever_listens_where_a_killed_one_did_is_told_nothing(folder: Path, gateway: Gateway) -> None:
    with another_process(folder, gateway.url) as process, Client(retry=NOT_AGAIN) as client:
        assert client.leases.get(42).id == 42
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(Unreachable, match=f"the gateway of {folder} is not at work"):
            client.leases.get(42)
        with pytest.raises(Unreachable, match="is not at work"), Client(retry=NOT_AGAIN) as another:
            next(another.leases.watch())
    assert (folder / URL).read_text() == f"{gateway.url}\n"
    assert len(gateway.asked) == 1


def test_nor_by_the_client_that_awaits(folder: Path, gateway: Gateway) -> None:
    (folder / URL).write_text(gateway.url)

    async def ask() -> None:
        async with AsyncClient(retry=NOT_AGAIN) as client:
            await client.leases.get(42)

    with pytest.raises(Unreachable, match="is not at work"):
        anyio.run(ask)
    assert gateway.asked == []


def test_a_client_goes_on_when_the_gateway_is_back(folder: Path, gateway: Gateway) -> None:
    (folder / URL).write_text(gateway.url)
    with Client(retry=NOT_AGAIN) as client, announced(folder / URL, gateway.url):
        assert client.leases.get(42).id == 42


def test_other_tokens_are_for_whoever_is_named(folder: Path, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", "mine")
    (folder / URL).write_text(gateway.url)
    with Client(retry=NOT_AGAIN) as client:
        assert client.leases.get(42).id == 42
