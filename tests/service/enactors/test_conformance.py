"""Emulated machines keep to what every enactor keeps to: as they are, slow, and with less than they could."""

from pathlib import Path

import pytest
from tests.service.enactors.sites import EmulatedRig

from leasehold.testing.enactor_rig import Rig
from leasehold.testing.enactors import EnactorConformance


class TestEmulated(EnactorConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path)


class TestSlowToBoot(EnactorConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"boot_s": 3, "slow_factor": 1.5, "delay_s": 0.7})


class TestWithMishaps(EnactorConformance):
    """News comes twice and late, and a third of the orders has to be told again."""

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(
            tmp_path, {"fail_orders": 0.3, "repeat_observations": 0.5, "observations_late_s": 2}
        )


class TestUnableToSuspendOrMove(EnactorConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"suspend": False, "migrate": False})


class TestJustMachines(EnactorConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"commands": False})
