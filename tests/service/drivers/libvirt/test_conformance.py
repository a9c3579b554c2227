"""Machines under libvirt keep to what every driver keeps to."""

import pytest
from tests.service.drivers.libvirt.guest import LEAST_MEMORY_MIB
from tests.service.drivers.libvirt.rigs import Agents, LibvirtRig, LyingRig, PretendedRig

from leasehold.testing.driver_rig import Rig
from leasehold.testing.drivers import DriverConformance


class TestPretended(DriverConformance):
    """On libvirt's own pretended host: all states there are, and no time that passes."""

    @pytest.fixture
    def rig(self, pretended: PretendedRig) -> Rig:
        return pretended


def test_a_machine_that_lies_harms_nobody_else(pretended: PretendedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pretended machines, with guest agents that say what they like."""
    import libvirt_qemu  # noqa: PLC0415 - it is there when its fixture is

    liars = LyingRig(pretended.folder, {**pretended.options, "guest_agent": True}, clock=pretended.clock, patience=200)
    liars.agents = Agents()
    monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", liars.agents.answer)
    monkeypatch.setattr("leasehold.service.drivers.libvirt.domain._has_agent", lambda _: True)  # no channel fits
    suite = DriverConformance()
    suite.test_a_machine_that_lies_harms_nobody_else(liars)


@pytest.mark.machines
class TestReal(DriverConformance):
    """On two real hosts, with guests whose agent runs commands, and that move while they run."""

    least_memory_mib = LEAST_MEMORY_MIB

    @pytest.fixture
    def rig(self, real: LibvirtRig) -> Rig:
        return real
