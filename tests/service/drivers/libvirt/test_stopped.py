"""What stands still goes on before it is sent, and where it has come so; what ended on its way has ended."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.provider import MachineInstance, MachineState, PermanentError, Step
from leasehold.service.drivers.reconciler.store import InstanceStore, Neighbour
from leasehold.testing.driver_rig import order

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

    def hasManagedSaveImage(self) -> bool:  # noqa: N802 - libvirt's name
        return False

    def jobInfo(self) -> list[int]:  # noqa: N802 - libvirt's name
        return [self.job]

    def resume(self) -> None:
        self.calls.append("resume")

    def migrateToURI3(self, *_: Any) -> None:  # noqa: N802 - libvirt's name
        self.calls.append("migrate")


class ShutOff(Stopped):
    """One that does not run any more."""

    def state(self) -> tuple[int, int]:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        return libvirt.VIR_DOMAIN_SHUTOFF, self.reason


@dataclass
class Running:
    """One that runs, driven by this."""

    type: str
    how: int = 0

    def state(self) -> tuple[int, int]:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        return libvirt.VIR_DOMAIN_RUNNING, 0

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return f"<domain type='{self.type}'/>"

    def migrateToURI3(self, _there: str, _wishes: object, how: int) -> None:  # noqa: N802 - libvirt's name
        self.how = how


def expected(phase: Phase = Phase.RECEIVING, desired: Desired = Desired.UP) -> MachineInstance:
    told = order(Verb.RECEIVE, incarnation=2, other_site="a")
    return MachineInstance.ordered(told, phase, 0, other_site="a", from_site="a", desired=desired)


def test_one_that_has_come_stopped_is_let_go_on(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt.guest import look_at  # noqa: PLC0415 - as above

    def seen(reason: int, job: int = 0) -> MachineState:
        told = look_at(Stopped(reason, job), expected(), has_agent=False)
        assert told is not None
        return told[0]

    assert seen(libvirt.VIR_DOMAIN_PAUSED_USER) is MachineState.SAVED  # and what is saved and wanted up is resumed
    assert seen(libvirt.VIR_DOMAIN_PAUSED_USER, libvirt.VIR_DOMAIN_JOB_UNBOUNDED) is MachineState.ARRIVING
    assert seen(libvirt.VIR_DOMAIN_PAUSED_MIGRATION) is MachineState.PENDING
    assert seen(libvirt.VIR_DOMAIN_PAUSED_STARTING_UP) is MachineState.PENDING


def test_one_that_stands_still_is_not_sent_so(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt.driver import NotYet, _send  # noqa: PLC0415 - as above

    there: Neighbour[MachineInstance] = Neighbour({"peer_uri": "qemu:///there"}, [])
    stopped = Stopped(libvirt.VIR_DOMAIN_PAUSED_USER)
    with pytest.raises(NotYet, match="has to run again before it is sent"):
        _send(stopped, "leasehold-b-1-2-0", there)
    moving = Stopped(libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_JOB_UNBOUNDED)
    with pytest.raises(NotYet, match="on its way already"):
        _send(moving, "leasehold-b-1-2-0", there)
    assert (stopped.calls, moving.calls) == (["resume"], [])


def test_one_that_has_ended_on_its_way_has_ended(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt.guest import look_at  # noqa: PLC0415 - as above

    def seen(reason: int, command: tuple[str, ...] = (), **what: Any) -> MachineState | None:
        instance = replace(expected(), command=command, **what)
        told = look_at(ShutOff(reason), instance, has_agent=True)
        return None if told is None else told[0]

    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN) is MachineState.ENDED
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN, ("work",)) is MachineState.FAILED
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_CRASHED) is MachineState.FAILED
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN) is MachineState.FAILED  # libvirt itself was started anew
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_FAILED) is None  # it stays where it was, and is sent again
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_FAILED, desired=Desired.GONE) is MachineState.FAILED  # and is removed
    assert seen(libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN, phase=Phase.STARTING, from_site="") is None  # only described


def test_one_that_could_not_go_on_here_and_is_sent_no_more_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    library: Path,  # noqa: ARG001 - imported below
    tmp_path: Path,
) -> None:
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt.driver import LibvirtProvider, Moving  # noqa: PLC0415 - as above
    from leasehold.service.drivers.libvirt.options import read_options  # noqa: PLC0415 - as above

    (tmp_path / "a").mkdir()
    InstanceStore(tmp_path / "a", MachineInstance, "machines").close()  # which has nothing of it
    options = read_options({"uri": "test:///default", "type": "test"})
    provider = LibvirtProvider(options, "b", tmp_path / "b", Moving(tmp_path / "b"))
    lookup = SimpleNamespace(lookupByName=lambda _: ShutOff(libvirt.VIR_DOMAIN_SHUTOFF_FAILED))
    monkeypatch.setattr(provider, "_host", SimpleNamespace(connection=lookup))
    with pytest.raises(PermanentError, match="had no machines"):
        provider.act(Step.AWAIT, expected(), [])


def test_one_that_is_interpreted_stands_still_while_it_goes(library: Path) -> None:  # noqa: ARG001 - imported below
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt.driver import _send  # noqa: PLC0415 - as above

    def is_live(type_: str) -> bool:
        running = Running(type_)
        _send(running, "leasehold-b-1-2-0", Neighbour({"peer_uri": "qemu:///there"}, []))
        assert running.how & libvirt.VIR_MIGRATE_PEER2PEER
        return bool(running.how & libvirt.VIR_MIGRATE_LIVE)

    assert is_live("kvm")
    assert not is_live("qemu")
