"""An OpenNebula for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.drivers.opennebula.cloud import NebulaRig, nebula_server


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NebulaRig]:
    with nebula_server() as (nebula, url):
        yield NebulaRig(tmp_path, nebula, url)
