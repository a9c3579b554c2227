"""Machines in a cloud keep to what every driver keeps to, as far as a cloud that pretends can show it."""

from pathlib import Path

import pytest
from tests.service.drivers.ec2.cloud import Cloud, Ec2Rig

from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance

pytestmark = pytest.mark.machines


class TestHibernating(DriverConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path, cloud: Cloud) -> Rig:
        return Ec2Rig(tmp_path, cloud)
