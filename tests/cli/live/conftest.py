"""A gateway that answers as it is told, an environment that leads to it, and a clock that stands still."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.client.gateway import Gateway, serving

from leasehold.client import RetryPolicy

NOW = datetime(2026, 11, 21, 10, 56, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    for name in os.environ:
        if name.startswith(("LEASEHOLD_", "BEARER_")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("leasehold.client.access._SHARED", tmp_path / "shared")
    impatient = RetryPolicy(connect_tries=1, first_s=0)
    monkeypatch.setattr("leasehold.cli.live.gateway.patience", lambda: impatient)
    monkeypatch.setattr("leasehold.cli.live.leases.patience", lambda: impatient)
    with serving() as served:
        monkeypatch.setenv("LEASEHOLD_DATA", str(tmp_path / "data"))
        monkeypatch.setenv("LEASEHOLD_URL", served.url)
        monkeypatch.setenv("LEASEHOLD_TOKEN", "secret")
        yield served


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is 10:56:10 in a place whose clocks show UTC."""
    monkeypatch.setattr("leasehold.cli.live.times.now", lambda: NOW)
    with monkeypatch.context() as environment:
        environment.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
