"""Emulated machines keep to what every driver keeps to: as they are, slow, and with less than they could."""

from pathlib import Path

import pytest
from tests.service.drivers.sites import EmulatedRig

from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance


class TestEmulated(DriverConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path)


class TestSlowToBoot(DriverConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"boot_s": 3, "slow_factor": 1.5, "delay_s": 0.7})


class TestWithFaults(DriverConformance):
    """News comes twice and late, and a third of the orders has to be told again."""

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"fail_orders": 0.3, "repeat_observations": 0.5, "observations_late_s": 2})


class TestUnableToSuspendOrMove(DriverConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"suspend": False, "migrate": False})


class TestJustMachines(DriverConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Rig:
        return EmulatedRig(tmp_path, {"commands": False})
