"""One server for all tests of a process, empty for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.drivers.ec2.cloud import CREDENTIALS, Cloud, Ec2Rig, lacking, moto_server


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def cloud(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    cloud = Cloud(moto_url)
    lacking(monkeypatch, cloud)
    yield cloud
    cloud.clear()


@pytest.fixture
def rig(tmp_path: Path, cloud: Cloud) -> Ec2Rig:
    return Ec2Rig(tmp_path, cloud)
