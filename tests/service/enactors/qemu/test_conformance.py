"""Virtual machines keep to what every enactor keeps to."""

from pathlib import Path

import pytest
from tests.service.enactors.qemu.machines import QemuRig

from leasehold.testing.enactor_rig import Rig
from leasehold.testing.enactors import EnactorConformance

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("qemu")]


class TestQemu(EnactorConformance):
    @pytest.fixture
    def rig(self, place: Path, image: Path, alone_with_many_guests: None) -> Rig:  # noqa: ARG002 - it waits
        return QemuRig(place, image)
