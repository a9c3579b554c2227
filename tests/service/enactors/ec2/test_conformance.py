"""Machines in a cloud keep to what every enactor keeps to, as far as a cloud that pretends can show it."""

from pathlib import Path

import pytest
from tests.service.enactors.ec2.cloud import Cloud, Ec2Rig

from leasehold.testing.enactor_rig import Rig
from leasehold.testing.enactors import EnactorConformance

pytestmark = pytest.mark.machines


class TestHibernating(EnactorConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path, cloud: Cloud) -> Rig:
        return Ec2Rig(tmp_path, cloud)
