"""Guests whose agents let a look wait: however many there are, a look waits for one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Phase, Verb
from leasehold.service.drivers.reconciler.provider import MachineInstance
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.usefixtures("library")

AGENT_WAITS_S, BETWEEN_LOOKS_S = 3.0, 20.0


@dataclass
class Running:
    """A domain as libvirt's library has it, as far as it is asked here."""

    number: int

    def name(self) -> str:
        return f"leasehold-a-{self.number}-1-0"

    def state(self) -> tuple[int, int]:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        return libvirt.VIR_DOMAIN_RUNNING, 0

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return True


@dataclass
class Guests:
    """Guests that let whoever asks them wait, and a clock that shows it; ``asked`` in this look."""

    domains: Sequence[Running]
    slow: set[int]
    now_s: float = 1_000.0
    asked: list[int] = field(default_factory=list)

    def listAllDomains(self) -> Sequence[Running]:  # noqa: N802 - libvirt's name
        return self.domains

    def monotonic(self) -> float:
        return self.now_s

    def answer(self, domain: Running, *_: object) -> str:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        self.asked.append(domain.number)
        if domain.number in self.slow:
            self.now_s += AGENT_WAITS_S
            raise libvirt.libvirtError("agent is not responding")
        return '{"return": {}}'

    def lookupByName(self, name: str) -> Running:  # noqa: N802 - libvirt's name
        return self.domains[int(name.rpartition("-")[2])]


def provider_of(guests: Guests, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    import libvirt_qemu  # noqa: PLC0415 - it is there when its fixture is

    from leasehold.service.drivers.libvirt import driver as module  # noqa: PLC0415 - as above
    from leasehold.service.drivers.libvirt.driver import Moving  # noqa: PLC0415 - as above
    from leasehold.service.drivers.libvirt.options import read_options  # noqa: PLC0415 - as above

    monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", guests.answer)
    monkeypatch.setattr(module, "time", guests)
    options = read_options({"uri": "test:///default", "type": "test", "guest_agent": True})
    provider = module.LibvirtProvider(options, "a", folder, Moving(folder))
    monkeypatch.setattr(provider, "_host", SimpleNamespace(connection=guests, name="host"))
    return provider


def looking(guests: Guests, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """Look at such guests, whose commands are still to be started, and say who was asked."""
    provider = provider_of(guests, monkeypatch, folder)
    started = [order(Verb.START, one.number, command=("true",)) for one in guests.domains]
    instances = [MachineInstance.ordered(one, Phase.STARTING, 0) for one in started]

    def look() -> list[int]:
        guests.asked, guests.now_s = [], guests.now_s + BETWEEN_LOOKS_S
        assert len(provider.observe(instances)) == len(instances)
        return guests.asked

    return look


def test_a_look_waits_for_one_guest_that_is_known_to_be_slow_and_for_each_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guests = Guests([Running(number) for number in range(1, 6)], {2, 3, 4})
    look = looking(guests, monkeypatch, tmp_path)
    assert look() == [1, 2, 3, 4, 5]  # nobody is known yet
    assert [sorted({2, 3, 4} & set(look())) for _ in range(6)] == [[2], [3], [4], [2], [3], [4]]
    assert {1, 5} <= set(look())


def test_one_that_answers_again_is_asked_at_each_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guests = Guests([Running(1), Running(2)], {1, 2})
    look = looking(guests, monkeypatch, tmp_path)
    look()
    guests.slow = {2}
    assert look() == [1]
    assert look() == [1, 2]
    assert look() == [1, 2]


def test_one_that_was_slow_just_now_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guests = Guests([Running(1)], {1})
    look = looking(guests, monkeypatch, tmp_path)
    assert look() == [1]
    guests.now_s -= BETWEEN_LOOKS_S
    assert look() == []
    assert look() == [1]


@dataclass
class Changing(Running):
    """A domain that changes while it is looked at: libvirt refuses to say anything of it."""

    code_name: str = "VIR_ERR_OPERATION_INVALID"

    def state(self) -> tuple[int, int]:
        import libvirt  # noqa: PLC0415 - it is there when its fixture is

        error = libvirt.libvirtError("not now")
        error.err = (getattr(libvirt, self.code_name), 0, "not now", 2, "", "", "", -1, -1)
        raise error


def test_one_that_changes_while_it_is_looked_at_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever is taken to have gone is forgotten, and its machine removed as nobody's."""
    look = looking(Guests([Changing(1)], set()), monkeypatch, tmp_path)
    assert look() == []


def test_one_that_has_gone_while_it_was_looked_at_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    look = looking(Guests([Changing(1, "VIR_ERR_NO_DOMAIN")], set()), monkeypatch, tmp_path)
    with pytest.raises(AssertionError):
        look()


def test_who_reads_what_commands_write_waits_for_one_guest_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guests = Guests([Running(number) for number in range(3)], {0, 1, 2})
    provider = provider_of(guests, monkeypatch, tmp_path)
    instance = MachineInstance.ordered(order(Verb.START, 1, vms=3, command=("true",)), Phase.RUNNING, 0)
    instance.command_started = True
    assert provider.output(instance) == Output("", is_whole=False)
    assert guests.asked == [0]
