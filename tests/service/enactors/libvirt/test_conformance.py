"""Machines under libvirt keep to what every enactor keeps to."""

import pytest
from tests.service.enactors.libvirt.rigs import LibvirtRig, PretendedRig

from leasehold.testing.enactor_rig import Rig
from leasehold.testing.enactors import EnactorConformance


class TestPretended(EnactorConformance):
    """On libvirt's own pretended host: all states there are, and no time that passes."""

    @pytest.fixture
    def rig(self, pretended: PretendedRig) -> Rig:
        return pretended


@pytest.mark.slow
class TestReal(EnactorConformance):
    """On two real hosts, with guests whose agent runs commands, and that move while they run."""

    @pytest.fixture
    def rig(self, real: LibvirtRig, alone_with_many_guests: None) -> Rig:  # noqa: ARG002 - it waits
        return real
