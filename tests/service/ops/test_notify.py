"""What systemd is told, and where."""

import os
import socket
from pathlib import Path

import pytest

from leasehold.service.serving import READY, notify


@pytest.mark.parametrize("address", ["notify", "@leasehold-test-{pid}"])
def test_a_datagram_goes_to_the_socket_that_is_named(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    address = address.format(pid=os.getpid())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0"))
        named = address if address.startswith("@") else f"/proc/self/cwd/{address}"
        notify(READY, {"NOTIFY_SOCKET": named})
        assert systemd.recv(64) == b"READY=1"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_without_systemd_nothing_happens(environment: dict[str, str]) -> None:
    notify(READY, environment)


def test_nor_where_its_socket_is_gone(tmp_path: Path) -> None:
    notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "gone")})
