"""A machine that stands still goes on before it is sent, and where it has come so: it is not waited for."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.enactors.kept.holding import Goal, Holding
from leasehold.service.enactors.kept.machine import State
from leasehold.service.enactors.protocol import Phase, Verb
from leasehold.testing.enactor_rig import order

pytestmark = pytest.mark.usefixtures("library")


@dataclass
class Stopped:
    """A domain as libvirt's library has it, as far as it is asked here."""

    reason: int
    job: int = 0
    calls: list[str] = field(default_factory=list)

    def state(self) -> tuple[int, int]:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        return libvirt.VIR_DOMAIN_PAUSED, self.reason

    def jobInfo(self) -> list[int]:  # noqa: N802 - libvirt's name
        return [self.job]

    def resume(self) -> None:
        self.calls.append("resume")

    def migrateToURI3(self, *_: Any) -> None:  # noqa: N802 - libvirt's name
        self.calls.append("migrate")


def expected(phase: Phase = Phase.RECEIVING, goal: Goal = Goal.UP) -> Holding:
    holding = Holding.ordered(order(Verb.RECEIVE, incarnation=2, other_site="a"), phase, 0)
    holding.goal = goal
    return holding


def test_one_that_has_come_stopped_is_let_go_on(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.enactors.libvirt.reading import look_at  # noqa: PLC0415 - as above

    def seen(reason: int, job: int = 0) -> State:
        told = look_at(Stopped(reason, job), expected(), has_agent=False)
        assert told is not None
        return told[0]

    assert seen(libvirt.VIR_DOMAIN_PAUSED_USER) is State.SAVED  # and what is saved and wanted up is resumed
    assert seen(libvirt.VIR_DOMAIN_PAUSED_USER, libvirt.VIR_DOMAIN_JOB_UNBOUNDED) is State.COMING
    assert seen(libvirt.VIR_DOMAIN_PAUSED_MIGRATION) is State.COMING
    assert seen(libvirt.VIR_DOMAIN_PAUSED_STARTING_UP) is State.COMING


def test_one_that_stands_still_is_not_sent_so(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.enactors.kept.ledger import Neighbour  # noqa: PLC0415 - as above
    from leasehold.service.enactors.libvirt.moving import NotYet, _send  # noqa: PLC0415 - as above

    there = Neighbour({"peer_uri": "qemu:///there"}, [], -1)
    stopped = Stopped(libvirt.VIR_DOMAIN_PAUSED_USER)
    with pytest.raises(NotYet, match="goes on before it is sent"):
        _send(stopped, "leasehold-b-1-2-0", there)
    moving = Stopped(libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_JOB_UNBOUNDED)
    with pytest.raises(NotYet, match="on its way already"):
        _send(moving, "leasehold-b-1-2-0", there)
    assert (stopped.calls, moving.calls) == (["resume"], [])
