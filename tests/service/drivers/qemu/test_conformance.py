"""Virtual machines keep to what every driver keeps to."""

from pathlib import Path

import pytest
from tests.service.drivers.qemu.machines import QemuRig

from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance

pytestmark = pytest.mark.machines


class TestQemu(DriverConformance):
    @pytest.fixture
    def rig(self, place: Path, image: Path) -> Rig:
        return QemuRig(place, image)

    def test_work_goes_on_where_it_was_suspended(self, rig: Rig) -> None:
        super().test_work_goes_on_where_it_was_suspended(rig)
