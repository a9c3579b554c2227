"""Jobs of a real Slurm keep to what every driver keeps to."""

import pytest
from tests.service.drivers.slurm.sites import SlurmRig

from leasehold.testing.drivers import DriverConformance


@pytest.mark.machines
class TestSlurm(DriverConformance):
    """Its fixture ``rig`` is the one of this folder: three nodes of four CPUs, all of which are lent."""

    rig: SlurmRig
