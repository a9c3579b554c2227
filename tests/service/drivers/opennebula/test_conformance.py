"""Machines in an OpenNebula keep to what every driver keeps to, as far as one that pretends can show it."""

import pytest
from tests.service.drivers.opennebula.cloud import NebulaRig

from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance

pytestmark = pytest.mark.machines


class TestStopped(DriverConformance):
    """Memory and disks leave the host."""

    @pytest.fixture
    def rig(self, rig: NebulaRig) -> Rig:
        return rig


class TestSuspended(DriverConformance):
    """Memory stays on the host, and exit statuses are not reported."""

    @pytest.fixture
    def rig(self, rig: NebulaRig) -> Rig:
        rig.options = {"save": "suspend", "onegate": False}
        return rig
