"""A gateway that answers as it is told, both clients at it, and an environment that knows of no other."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.gateway import Gateway, serving
from tests.client.talking import Talk, awaiting, waiting

from leasehold.client import RetryPolicy

AT_ONCE = RetryPolicy(tries=4, connect_tries=4, first_s=0)


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither tokens nor gateways of whoever runs the tests are found."""
    for name in os.environ:
        if name.startswith(("LEASEHOLD_", "BEARER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LEASEHOLD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("leasehold.client.access._SHARED", tmp_path / "shared")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving() as served:
        yield served


@pytest.fixture(params=["waiting", "awaiting"])
def talk(request: pytest.FixtureRequest, gateway: Gateway) -> Talk:
    """Use one of the two clients, which behave alike."""
    ways = {"waiting": waiting, "awaiting": awaiting}
    return ways[request.param](gateway.url, AT_ONCE)
