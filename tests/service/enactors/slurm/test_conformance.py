"""Jobs of a real Slurm keep to what every enactor keeps to."""

import pytest
from tests.service.enactors.slurm.sites import SlurmRig

from leasehold.testing.enactors import EnactorConformance


@pytest.mark.machines
class TestSlurm(EnactorConformance):
    """Its fixture ``rig`` is the one of this folder: three nodes of four CPUs, all of which are lent."""

    rig: SlurmRig
