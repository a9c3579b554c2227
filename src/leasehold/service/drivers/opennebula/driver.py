"""The OpenNebula driver: machines are made on hold, found by their context, and released once all are there.

OpenNebula has no means to repeat a call safely. A machine is therefore made on hold, and runs nothing before it was
observed: where the answer to a call was lost and a second machine was made, the later one is removed on hold.
"""

import base64
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from leasehold.service.drivers.bounds import LATEST_MS, exit_status_in, one_line, whole_in
from leasehold.service.drivers.facts import Access
from leasehold.service.drivers.opennebula.api import MOST_MESSAGE, Code, OpenNebula, Refused
from leasehold.service.drivers.opennebula.options import OpenNebulaOptions, read_options
from leasehold.service.drivers.opennebula.states import (
    ACTIVE,
    DONE,
    FROM_SCRATCH,
    HOLD,
    UNKNOWN,
    meaning_of,
)
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Phase
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.driver import ReconciledDriver
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Seen,
    Status,
    Step,
)

# --- what is said to OpenNebula ---------------------------------------------------------------------------------------

MARK = "LEASEHOLD_VM"
"""Of the context: whose machine it is, and which. A guest with OneGate can write its user template, but not this."""
EXIT_STATUS = "USER_TEMPLATE/LEASEHOLD_EXIT_STATUS"
"""Where the guest reports of its command."""

MOST_SCRIPT = 32_768
"""Bytes of a start script. OpenNebula documents no limit: this one keeps descriptions of machines short."""

_SCRIPT = """\
#!/bin/sh
# The command of a lease, which runs once. Then the machine powers off.
# Contextualization comes at every boot, and may come again while it runs: a folder is made by one only.
cd /
mkdir /run/{name} || exit 0
export LEASEHOLD_LEASE={lease} LEASEHOLD_MACHINE={number} LEASEHOLD_MACHINES={vms}
if mkdir /var/lib/{name}; then
  ( {command} ) > /dev/console 2>&1 < /dev/null
  echo $? > /var/lib/{name}/status
fi
test -s /var/lib/{name}/status || echo 137 > /var/lib/{name}/status
{report}
poweroff
"""
_REPORT = 'onegate vm update --data "LEASEHOLD_EXIT_STATUS=$(cat /var/lib/{name}/status)"'


def start_script(instance: MachineInstance, number: int, *, onegate: bool) -> str:
    """Write the script that contextualization runs; a command that a reboot has cut off was killed."""
    name = f"leasehold-{instance.lease_id}-{instance.generation}"
    report = _REPORT.format(name=name) if onegate else ":"
    command = shlex.join(instance.command)
    return _SCRIPT.format(
        lease=instance.lease_id, number=number, vms=instance.vms, name=name, command=command, report=report
    )


def extra_template(
    options: OpenNebulaOptions, site: str, instance: MachineInstance, number: int, context: Sequence[ET.Element]
) -> str:
    """Write what a machine has beside its template; ``context`` is that of the template, which this replaces."""
    template = ET.Element("TEMPLATE")
    memory_mib = max(instance.memory_mib, options.least_memory_mib)
    ET.SubElement(template, "MEMORY").text = str(memory_mib)
    if options.network is not None:
        ET.SubElement(ET.SubElement(template, "NIC"), "NETWORK_ID").text = str(options.network)
    own = {MARK: f"{site} {instance.lease_id} {instance.generation} {number}"}
    if instance.ssh_key:
        own["SSH_PUBLIC_KEY"] = instance.ssh_key
    if options.onegate:
        own["TOKEN"] = "YES"  # noqa: S105 - asks for one
    if instance.command:
        script = start_script(instance, number, onegate=options.onegate).encode()
        if len(script) > MOST_SCRIPT:
            raise PermanentError(f"the command is too long: with its script more than {MOST_SCRIPT} bytes")
        own |= {"START_SCRIPT_BASE64": base64.b64encode(script).decode()}  # preferred to START_SCRIPT
    merged = ET.SubElement(template, "CONTEXT")
    for name, value in ({one.tag: one.text or "" for one in context} | own).items():
        ET.SubElement(merged, name).text = value
    return ET.tostring(template, encoding="unicode")


# --- what OpenNebula says ---------------------------------------------------------------------------------------------

_MARK = re.compile(r"(\S+) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,6})", re.ASCII)
_POWERED_OFF_BY_USER = frozenset({19, 20})
"""The actions of a history whose machine was powered off by a call: ``poweroff``, and ``poweroff-hard``."""
_OBSERVED_AGAIN = frozenset({Code.NO_EXISTS, Code.ACTION})
"""An action is refused so where the machine has gone, or is on its way to another state."""
_PERMANENT = frozenset({Code.NO_EXISTS, Code.XML_RPC_API})
"""So is a machine refused whose template is not there, or wrong. All else may change: quotas, rights, images, room."""
_WHY = ("ERROR", "SCHED_MESSAGE")
"""Of the user template: what OpenNebula says of a failure, and its scheduler of a machine that has no host."""
_ALL_OF_MINE, _FIRST, _LAST, _ANY_BUT_DONE = -3, -1, -1, -1
_MOST_NAME = 128


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """One machine as OpenNebula describes it.

    ``number``  which of its lease's machines it is
    ``why``     what OpenNebula says of its state
    ``action``  the number of the last action in its history
    """

    key: Key
    number: int
    id: int
    state: int
    lcm_state: int
    why: str = ""
    host: str = ""
    action: int = 0
    exit_status: int | None = None
    address: str = ""


def read_machine(described: ET.Element, site: str) -> VirtualMachine | None:
    """Read a description; None where it is not of a machine of this site."""
    mark = _MARK.fullmatch(described.findtext(f"TEMPLATE/CONTEXT/{MARK}") or "")
    if mark is None or mark[1] != site:
        return None
    lease_id, generation, number = (whole_in(text, 0, LATEST_MS) for text in mark.groups()[1:])
    identity, state, lcm_state = (
        whole_in(described.findtext(name), 0, LATEST_MS) for name in ("ID", "STATE", "LCM_STATE")
    )
    if lease_id is None or generation is None or number is None or identity is None or state is None:
        return None
    history = described.findall("HISTORY_RECORDS/HISTORY")[-1:]
    reasons = (described.findtext(f"USER_TEMPLATE/{name}") for name in _WHY)
    return VirtualMachine(
        key=(lease_id, generation),
        number=number,
        id=identity,
        state=state,
        lcm_state=lcm_state or 0,
        why=one_line(next((text for text in reasons if text), ""), MOST_MESSAGE),
        host=one_line(history[0].findtext("HOSTNAME") or "", _MOST_NAME) if history else "",
        action=(whole_in(history[0].findtext("ACTION"), 0, LATEST_MS) or 0) if history else 0,
        exit_status=exit_status_in(described.findtext(EXIT_STATUS)),
        address=one_line(described.findtext("TEMPLATE/NIC/IP") or "", _MOST_NAME),
    )


def seen(vm: VirtualMachine, instance: MachineInstance | None) -> Seen:
    """Say what the state of a machine means for its instance."""
    state, name = meaning_of(vm.state, vm.lcm_state)
    why = f"OpenNebula says of machine {vm.id}: {name}{vm.why and f', {vm.why}'}"
    if state is MachineState.ENDED:
        return _powered_off(vm, instance)
    if state is MachineState.FAILED:
        return Seen(state, why)
    if vm.state == ACTIVE and vm.lcm_state in FROM_SCRATCH and instance is not None and instance.came_up:
        return Seen(MachineState.FAILED, f"{why}: it starts from the beginning, by other means than an order")
    if vm.state == HOLD and instance is not None and instance.desired is Desired.SAVED:
        return Seen(MachineState.SAVED)  # nothing of it has run yet
    return Seen(state, why if vm.why and state is MachineState.PENDING else "")


def _powered_off(vm: VirtualMachine, instance: MachineInstance | None) -> Seen:
    """By its own guest, as at the end of its command, or by a call, with the loss of its memory."""
    if instance is not None and instance.command and vm.exit_status is not None:
        return Seen(MachineState.ENDED, exit_status=vm.exit_status)
    if vm.action in _POWERED_OFF_BY_USER:
        return Seen(MachineState.FAILED, f"machine {vm.id} was powered off by other means than an order")
    if instance is not None and instance.command:
        return Seen(MachineState.ENDED, "its exit status is not known: it was not reported through OneGate")
    return Seen(MachineState.ENDED, "it has shut itself down")


# --- the machines of a site -------------------------------------------------------------------------------------------


class OpenNebulaProvider(Provider):
    """The machines of one site."""

    def __init__(self, options: OpenNebulaOptions, site: str) -> None:
        self._options = options
        self._site = options.name or site
        self._cloud = OpenNebula(options.endpoint, options.auth_file, options.answer_within_ms / 1000)
        self._unknown_from_s: dict[int, float] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        return self._options.able

    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """Observe every machine with the mark of this site; what was made twice is removed, while it is on hold."""
        known = {instance.key: instance for instance in instances}
        machines: dict[tuple[Key, int], Machine] = {}
        there = sorted(self._there(), key=lambda vm: vm.id)
        self._unknown_from_s = self._times_unknown(there)
        for vm in there:
            if (vm.key, vm.number) not in machines:
                machines[vm.key, vm.number] = self._machine(vm, known.get(vm.key))
            elif vm.state == HOLD:
                self._action("terminate-hard", vm.id)
        return list(machines.values())

    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Take a step, with those machines that still need it."""
        if step is Step.CREATE:
            self._create(instance)
            return
        action, touched = self._actions[step]
        for machine in machines:
            if machine.state in touched:
                self._action(action, int(machine.handle))

    def status_of(self, instance: MachineInstance, machines: Sequence[Machine]) -> Status:
        """Say what its machines mean, and why they are not up yet."""
        status = super().status_of(instance, machines)
        if status.phase not in {Phase.STARTING, Phase.RESUMING}:
            return status
        return replace(status, detail=next((one.detail for one in machines if one.detail), status.detail))

    # observing

    def _there(self) -> Iterator[VirtualMachine]:
        # The whole pool in one answer: machines that go between two pages would hide others, which would count as lost.
        pool = self._cloud.document("one.vmpool.infoextended", _ALL_OF_MINE, _FIRST, _LAST, _ANY_BUT_DONE)
        for described in pool.iterfind("VM"):
            vm = read_machine(described, self._site)
            if vm is not None and vm.state != DONE:
                yield vm

    def _machine(self, vm: VirtualMachine, instance: MachineInstance | None) -> Machine:
        what = seen(vm, instance)
        unknown_s = time.monotonic() - self._unknown_from_s.get(vm.id, time.monotonic())
        if unknown_s * 1000 > self._options.unknown_within_ms:
            what = Seen(MachineState.FAILED, f"machine {vm.id} has been in the state UNKNOWN for {unknown_s:.0f} s")
        takes_room = what.state is not MachineState.ENDED
        return Machine(vm.key, str(vm.id), *what, takes_room=takes_room, node=vm.host)

    def _times_unknown(self, there: Sequence[VirtualMachine]) -> dict[int, float]:
        """Since when each machine has not been monitored, of those that are not."""
        unknown = (vm.id for vm in there if (vm.state, vm.lcm_state) == (ACTIVE, UNKNOWN))
        now_s = time.monotonic()
        return {identity: self._unknown_from_s.get(identity, now_s) for identity in unknown}

    def access(self, instance: MachineInstance) -> list[Access]:
        """Say where its machines are; as whom one logs in is up to their image."""
        there = sorted((vm for vm in self._there() if vm.key == instance.key), key=lambda vm: vm.number)
        return [Access(vm.number, vm.address) for vm in there if vm.state == ACTIVE and vm.address]

    # steps

    @property
    def _actions(self) -> dict[Step, tuple[str, frozenset[MachineState]]]:
        """What is called for each step, and for machines in which states."""
        return {
            Step.RUN: ("release", frozenset({MachineState.READY})),
            Step.RESUME: ("resume", frozenset({MachineState.SAVED})),
            Step.SAVE: (self._options.save, frozenset({MachineState.UP})),
            Step.REMOVE: ("terminate-hard", frozenset(MachineState)),
        }

    def _create(self, instance: MachineInstance) -> None:
        """Make the machines that are missing, on hold; an earlier try may have made some."""
        there = {vm.number for vm in self._there() if vm.key == instance.key}
        name, on_hold, persistent = f"leasehold-{instance.lease_id}", True, False
        try:
            number_of_template = self._template_of(instance)
            template = self._cloud.document("one.template.info", number_of_template)
            context = template.findall("TEMPLATE/CONTEXT/*")
            made: set[object] = set()
            for number in sorted(set(range(instance.vms)) - there):
                extra = extra_template(self._options, self._site, instance, number, context)
                what = (number_of_template, name, on_hold, extra, persistent)
                made.add(self._cloud.call("one.template.instantiate", *what))
        except Refused as error:
            if error.code in _PERMANENT:
                raise PermanentError(str(error)) from error
            raise
        self._check_found(made, number_of_template)

    def _template_of(self, instance: MachineInstance) -> int:
        return self._options.images[instance.image] if instance.image else self._options.template

    def _check_found(self, made: set[object], template: int) -> None:
        """Without its mark, or as another user's, a machine would be made again and again."""
        lost = made - {vm.id for vm in self._there()}
        for identity in lost:
            self._action("terminate-hard", identity)
        if lost:
            why = "they have another owner, or not the context that was given"
            raise PermanentError(f"machines of template {template} are not found again: {why}")

    def _action(self, action: str, identity: object) -> None:
        try:
            self._cloud.call("one.vm.action", action, identity)
        except Refused as error:
            if error.code not in _OBSERVED_AGAIN:
                raise


def opennebula_driver(setup: DriverSetup) -> ReconciledDriver:
    """Make the driver of a site in an OpenNebula, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store or credentials that
    cannot be used.
    """
    options = read_options(setup.options)
    return ReconciledDriver(setup, lambda _store: OpenNebulaProvider(options, setup.site), options.settings)
