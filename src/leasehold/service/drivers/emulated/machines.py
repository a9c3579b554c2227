"""The heart of an emulated site: what becomes of machines that are given orders, as time passes.

There is no clock and no file here. The times are exactly those by which a simulation reckons: a command ends when its
work is done, counted from when the machines run, and saving, loading and moving take what the overhead model says.
Changes that are due at the same time happen in the order in which they were scheduled. Which orders are followed is
said in `leasehold.service.drivers.reconciler.order_rules`.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import ceil

from leasehold.jobs.job import Fault
from leasehold.model.errors import UnknownName
from leasehold.service.drivers.emulated.fault_injection import (
    FaultInjector,
    NodeFaults,
    NodeFaultSchedule,
    describe,
)
from leasehold.service.drivers.emulated.images import ImageCatalogue
from leasehold.service.drivers.emulated.nodes import NodeInventory
from leasehold.service.drivers.emulated.options import Hardware, default_nodes
from leasehold.service.drivers.emulated.record import (
    BEGINNING,
    Action,
    AuditLine,
    Change,
    EmulatedInstance,
    Saved,
    Transition,
    Unwritten,
)
from leasehold.service.drivers.facts import NodeFacts, Output
from leasehold.service.drivers.protocol import (
    NO_CONSTRAINTS,
    NOT_FOUND,
    Observation,
    Order,
    Phase,
    PlacementConstraints,
    Problem,
    Verb,
    fault_of_exit,
)
from leasehold.service.drivers.reconciler import order_rules
from leasehold.service.drivers.reconciler.instances import OVER, Instances
from leasehold.service.drivers.reconciler.order_rules import Action as Todo
from leasehold.service.drivers.staging import StagedFile

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_STATUS = re.compile(r"[0-9]{1,3}")
_MORE_THAN_WORDS = re.compile(r"[$&|<>()`*?\\#~!{}\[\]]")
"""What a shell makes something else of: no script with any of it is carried out, even where it is quoted."""
_QUOTE = re.compile("[\"']")
_TO_ERROR = ">&2"
_WORKING_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ends by itself: after this much work (in work units), and its details."""

    work: int
    detail: str = ""
    exit_status: int = 0
    output: str = ""
    error: str = ""


Read = Callable[[StagedFile], str]
"""Gives the text of a file."""


class WorkingFolder:
    """The files that a command finds, and leaves behind, by name."""

    def __init__(self, files: Iterable[StagedFile] = (), read: Read = lambda _: "") -> None:
        self.files = {file.name: file for file in files}
        self._read = read

    def text(self, name: str) -> str | None:
        """Read a file; None where there is none."""
        return self._read(self.files[name]) if name in self.files else None

    def copy(self, name: str, to: str) -> bool:
        """Copy a file; whether it is there."""
        if name in self.files:
            self.files[to] = replace(self.files[name], name=to)
        return name in self.files


def ending(  # noqa: PLR0911 - a list of cases
    command: Sequence[str], reference_mips: int, folder: WorkingFolder | None = None
) -> Ending | None:
    """Say how a command ends; None: only when it is stopped.

    ===========================  ==============================================================
    ``sleep N``                  N seconds of work on a machine of the reference speed, then it ends
    ``echo TEXT ...``            writes a line, and ends at once
    ``printenv NAME``            writes the value of a variable, and ends at once
    ``cat FILE ...``             writes the text of files in its working folder, the beginning of long ones
    ``cp FILE FILE``             copies a file in its working folder
    ``env NAME=VALUE ... A``     one of these with variables
    ``true``, ``exit 0``         ends at once
    ``false``, ``exit N``        ends at once, and says with which exit status
    ``sh -c 'A; B; ...'``        one of these after the other, up to the first ``exit``; each may end with ``>&2``
    nothing                      just the machines: they run until they are stopped
    anything else                is not carried out, and taken to run until it is stopped
    ===========================  ==============================================================

    How long any other program would take cannot be known here. Taking it to run until its lease is over is what
    the planner counts on, too.
    """
    variables, words = parted(command)
    folder = folder or WorkingFolder()
    match words:
        case ["sleep", seconds]:
            return _slept(seconds, reference_mips)
        case ["echo", *said]:
            return Ending(0, output=" ".join(said) + "\n")
        case ["printenv", name]:
            return Ending(0, output=f"{variables[name]}\n") if name in variables else _exited("1")
        case ["cat", *names] if names:
            return _cat(names, folder)
        case ["cp", name, to]:
            return Ending(0) if folder.copy(name, to) else _failed(1, f"cp: {name}: No such file or directory")
        case ["true" | "false" as word]:
            return _exited("0" if word == "true" else "1")
        case ["exit", status]:
            return _exited(status)
        case ["sh", "-c", script]:
            return _one_after_the_other(script, variables, reference_mips, folder)
        case _:
            return None


def said_of(command: Sequence[str], reference_mips: int) -> str:
    """Say of a command that it is not carried out; "" of any other."""
    if not command or ending(command, reference_mips) is not None:
        return ""
    return f"emulated machines do not carry out {parted(command)[1][0]}: it is taken to run until it is stopped"


def parted(command: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Part a command that ``env`` starts from its variables."""
    words = list(command)
    if words[:1] != ["env"]:
        return {}, words
    first = next((number for number, word in enumerate(words) if number and "=" not in word), len(words))
    if first == len(words):
        return {}, words  # it lists what is there
    return dict(_variable(word) for word in words[1:first]), words[first:]


def _variable(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def failing(work: int, exit_status: int) -> Ending:
    """Say how a command ends whose own code goes wrong after so much work."""
    output = "emulated fault: an error in the job's own code\n"
    return Ending(work, f"exit status {exit_status}", exit_status, error=output)


def not_found(program: str) -> Ending:
    """Say how a command ends that is not there."""
    return Ending(0, f"exit status {NOT_FOUND}", NOT_FOUND, error=f"sh: 1: {program}: not found\n")


def _slept(seconds: str, reference_mips: int) -> Ending:
    if not _SECONDS.fullmatch(seconds):
        return _failed(1, f"sleep takes a number of seconds, not {seconds!r}")
    return Ending(ceil(Fraction(seconds) * _WORKING_MS_PER_S * reference_mips))


def _exited(status: str) -> Ending:
    if not _STATUS.fullmatch(status):
        return _failed(2, f"exit takes a number, not {status!r}")
    return _failed(int(status) % 256) if int(status) % 256 else Ending(0)


def _failed(status: int, why: str = "") -> Ending:
    return Ending(0, why or f"exit status {status}", status, error=f"{why}\n" if why else "")


def _cat(names: Iterable[str], folder: WorkingFolder) -> Ending:
    output, error = "", ""
    for name in names:
        text = folder.text(name)
        output += text or ""
        error += f"cat: {name}: No such file or directory\n" if text is None else ""
    return Ending(0, "exit status 1" if error else "", 1 if error else 0, output, error)


def _one_after_the_other(
    script: str, variables: Mapping[str, str], reference_mips: int, folder: WorkingFolder
) -> Ending | None:
    """Carry simple commands out as a shell would: the last of them, or an ``exit``, says how it ended."""
    work, output, error, last = 0, "", "", Ending(0)
    given = [f"{name}={value}" for name, value in variables.items()]
    for words in _commands(script):
        is_apart = words[-1] == _TO_ERROR
        command = words[:-1] if is_apart else words
        if words[0] == "sh":
            return None
        found = ending(["env", *given, *command] if given else command, reference_mips, folder)
        if found is None:
            return None
        work, last = work + found.work, found
        output, error = output + ("" if is_apart else found.output), error + found.error
        error += found.output if is_apart else ""
        if words[0] == "exit":
            break
    return Ending(work, last.detail, last.exit_status, output, error)


def _commands(script: str) -> list[list[str]]:
    """Part a script at its semicolons and line ends; one that is more than that is not carried out."""
    plain = script if _QUOTE.search(script) else script.replace(_TO_ERROR, "")
    if _MORE_THAN_WORDS.search(plain):
        return [[script]]
    lexer = shlex.shlex(script.replace("\n", ";"), posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) == {";"}:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return [[script]]
    return [words for words in commands if words]


CRASHED = Transition(Phase.FAILED, "emulated fault: crash", fault=Fault.SERVICE_STOPPED)
MEMORY_LOST = Transition(Phase.FAILED, "emulated fault: memory was not saved", fault=Fault.SERVICE_STOPPED)

_ALWAYS_KEPT = 64
"""So many entries of the schedule are not worth being cleared of what was cancelled."""


class EmulatedMachines(Instances[EmulatedInstance]):
    """The machines of one site, which follow orders and advance with the clock."""

    def __init__(
        self,
        hardware: Hardware,
        injector: FaultInjector,
        saved: Saved | None = None,
        read: Read = lambda _: "",
    ) -> None:
        """Restore the saved state; without it the site is empty. ``read`` reads inputs."""
        saved = saved or Saved()
        self._read = read
        self.hardware = hardware
        self.images = ImageCatalogue(hardware.building, saved.images) if hardware.building else None
        self._images_written = saved.images
        self.injector = injector
        self._node_faults = NodeFaults.from_text(saved.node_faults) if saved.node_faults else NodeFaults()
        self._node_faults_written = self._node_faults.to_text()
        self._nodes = NodeInventory(hardware.nodes or default_nodes(hardware.slots), self._node_faults)
        self._coming_faults = NodeFaultSchedule(injector, self._nodes.nodes, self._node_faults)
        self._sent: dict[int, tuple[int, int]] = {}
        self._audit: list[AuditLine] = []
        self._outputs: dict[int, tuple[str, str, str]] = {}
        super().__init__(saved.instances, saved.tombstones)
        self._number = max((change.number for one in self.all() for change in one.coming), default=0)
        self._schedule: list[tuple[int, int, int]] = []
        self._clear_schedule_at = 0
        self._clear_schedule()

    # what is asked of them

    def carry_out(self, orders: Sequence[Order], now_ms: int) -> dict[str, Problem]:
        """Follow orders in their sequence; returns the problems of those that were not taken on, by id."""
        answers = [(order.id, self._follow(order, now_ms)) for order in orders]
        return {name: problem for name, problem in answers if problem is not None}

    def pass_time(self, now_ms: int) -> list[Observation]:
        """Let everything happen that is due; returns what has changed since the last call, by orders too."""
        for at_ms, node, fault in self._coming_faults.due(now_ms):
            self.inject(node, fault, at_ms, self.injector.faults.node_down_ms)
        self._let_happen(now_ms)
        return self.take_news()

    def next_change_ms(self) -> int | None:
        """When the next change is due by itself; None if none is."""
        due_ms = (self._next_due_ms(), self._coming_faults.next_ms())
        return min((at_ms for at_ms in due_ms if at_ms is not None), default=None)

    def crash(self, lease_id: int, now_ms: int) -> None:
        """Lose the machines of a lease at once, or its saved memory; nothing happens where there are none."""
        self._let_happen(now_ms)
        current = self.current(lease_id)
        if current is not None and not current.is_over:
            current.coming = ()
            self._come_to(current, CRASHED, now_ms)

    def inject(self, node: str, fault: Fault, at_ms: int, for_ms: int) -> None:
        """Let something be wrong with a node for so long; raises UnknownName for one that is not there."""
        self._check_node(node)
        self._let_happen(at_ms)
        self._node_faults.inject(node, fault, at_ms + for_ms)
        if fault is not Fault.NETWORK_FAILED:
            self._fail_node(node, at_ms, Transition(Phase.FAILED, describe(fault), fault=fault.value))

    def lose_software(self, node: str, software: str, now_ms: int, for_ms: int) -> None:
        """Let software be gone from a node for so long; raises UnknownName for one that is not there."""
        self._check_node(node)
        self._node_faults.lose(node, software.lower(), now_ms + for_ms)

    def tell(self, order: Order, until_ms: int, now_ms: int) -> None:
        """Write down that the guest of an order is told of it; it does nothing about that."""
        current = self.current(order.lease_id)
        if current is not None and current.incarnation == order.incarnation and not current.is_over:
            left_s = max(0, until_ms - now_ms) / 1000
            self._write(Action.TELL, current, now_ms, f"by {order.notify} that it will be preempted in {left_s:g} s")
            self.touch(current)

    def nodes(self, now_ms: int) -> list[NodeFacts]:
        """Observe the nodes, as they were when time was last passed."""
        return self._nodes.facts(now_ms)

    def output(self, lease_id: int) -> Output | None:
        """Return what the command of a lease has written, once it has ended; None where nothing is here."""
        current = self.current(lease_id)
        return None if current is None else Output(current.output, error=current.error)

    def left_by(self, lease_id: int) -> tuple[StagedFile, ...] | None:
        """Return the files to be kept that the command of a lease has left; None where nothing is here."""
        current = self.current(lease_id)
        return None if current is None else current.left

    def take_unwritten(self) -> Unwritten:
        """Take what has to be written since the last call."""
        sent, self._sent = self._sent, {}
        audit, self._audit = self._audit, []
        outputs, self._outputs = self._outputs, {}
        node_faults = self._node_faults.to_text()
        if node_faults == self._node_faults_written:
            node_faults = ""
        else:
            self._node_faults_written = node_faults
        images = "" if self.images is None else self.images.to_text()
        if images == self._images_written:
            images = ""
        else:
            self._images_written = images
        return Unwritten(self.take_changes(), sent, audit, outputs, node_faults, images)

    def _check_node(self, node: str) -> None:
        if node not in self._nodes.nodes:
            raise UnknownName("node", node, list(self._nodes.nodes))

    # orders

    def _follow(self, order: Order, now_ms: int) -> Problem | None:
        self._let_happen(now_ms)
        current, tombstone = self.current(order.lease_id), self.tombstone(order.lease_id)
        if order_rules.is_out_of_date(order, current, tombstone):
            return order_rules.never_comes(order, current, tombstone)
        able = self.hardware.capabilities
        problem = self._unreachable(current, now_ms) or order_rules.not_capable(order, able)
        problem = problem or self.injector.problem_of(order, now_ms)
        todo = problem or order_rules.decide(order, current, tombstone, able, lambda _: self._refuse(order, now_ms))
        if isinstance(todo, Problem):
            return todo
        if todo in {Todo.CREATE, Todo.RECEIVE}:
            self._take_in(order, now_ms)
        elif todo in {Todo.SEND, Todo.STOP}:
            self._remove(order, now_ms)
        elif current is not None:
            self._change(current, todo, order, now_ms)
        return None

    def _unreachable(self, current: EmulatedInstance | None, now_ms: int) -> Problem | None:
        if current is None or not self._node_faults.dark_until_ms(current.nodes, now_ms):
            return None
        return self._node_faults.problem_of(current.nodes, now_ms)

    def _refuse(self, order: Order, now_ms: int) -> Problem | None:
        """Say why machines cannot come: new ones as ordered, saved ones to the nodes that they had named."""
        current = self.current(order.lease_id)
        if current is None:
            lacking = order_rules.no_such_image(order, self.hardware.capabilities)
            if lacking is not None and (self.images is None or order.constraints.image not in self.images):
                return lacking
            constraints, vms, memory_mib = order.constraints, order.vms, order.memory_mib
        else:
            constraints = (
                PlacementConstraints(current.nodes, cores=current.cores) if current.is_placed else NO_CONSTRAINTS
            )
            vms, memory_mib = current.vms, current.memory_mib
        if order.constraints.placed:
            problem = self._nodes.problem_with_placed(order.constraints, memory_mib, now_ms)
        else:
            machines = len(constraints.nodes) or vms  # fewer than VMs, where some were lost
            problem = self._nodes.problem_with(constraints, machines, memory_mib, now_ms)
        return problem or order_rules.no_room_for(vms, self.used_vms, self.hardware.slots)

    def _take_in(self, order: Order, now_ms: int) -> None:
        is_new, overhead = order.verb is Verb.START, self.hardware.overhead
        phase = Phase.STARTING if is_new else Phase.RECEIVING
        instance = EmulatedInstance.ordered(
            order,
            phase,
            now_ms,
            work_done=order.work_done,
            nodes=order.constraints.node_of_each() or self._nodes.any_nodes(order.vms, now_ms),
            cores=order.constraints.cores or 1,
            is_placed=bool(order.constraints.nodes),
            gpus=self._nodes.gpus_of(order.constraints),
            least=order.constraints.least,
        )
        self.add(instance)
        origin = f" from {order.other_site}" if order.other_site else ""
        self._write(Action.BOOT if is_new else Action.RECEIVE, instance, now_ms, f"{instance.size}{origin}")
        takes_ms = self.hardware.boot_ms if is_new else overhead.migrate_ms(order.memory_mib, order.vms)
        self._bring_up(instance, phase, takes_ms, now_ms)

    def _remove(self, order: Order, now_ms: int) -> None:
        instance = self.bury(order.lease_id, order.incarnation)
        if instance is None:
            return
        self._write(Action(order.verb), instance, now_ms, f"to {order.other_site}" if order.other_site else "")
        if order.verb is Verb.SEND:
            self._sent[instance.lease_id] = (instance.incarnation, self._work_done(instance, now_ms))
        if instance.output or instance.error or instance.left:
            left = json.dumps([[file.name, file.sha256, file.size_bytes] for file in instance.left])
            self._outputs[instance.lease_id] = instance.output, instance.error, left
        self.drop(instance)

    def _change(self, current: EmulatedInstance, todo: Todo, order: Order, now_ms: int) -> None:
        incarnation = order.incarnation
        if todo is Todo.SAVE:
            self._save(current, now_ms)
        elif todo is Todo.END_AGAIN:
            self.end_again(current, incarnation, now_ms)
            self._write(Action.END, current, now_ms, current.detail)
        elif todo is Todo.RESUME:
            self._resume(current, order, now_ms)

    def _save(self, current: EmulatedInstance, now_ms: int) -> None:
        current.work_done = self._work_done(current, now_ms)
        current.coming = ()
        self._write(Action.SAVE, current, now_ms, current.size)
        self._come_to(current, Transition(Phase.SAVING), now_ms)
        saved_ms = self.hardware.overhead.suspend_ms(current.memory_mib, current.vms)
        is_lost = self.injector.loses_memory(current.lease_id, current.incarnation)
        then = MEMORY_LOST if is_lost else Transition(Phase.SAVED)
        self._schedule_change(current, now_ms + self.injector.takes_ms(saved_ms), then)

    def _resume(self, current: EmulatedInstance, order: Order, now_ms: int) -> None:
        """Go on with the work that the saved memory holds, whatever the order believes of it."""
        if order.constraints.placed:
            current.nodes = order.constraints.node_of_each()
            current.gpus = self._nodes.gpus_of(order.constraints)
        elif not current.is_placed:
            current.nodes = self._nodes.any_nodes(current.vms, now_ms)
        current.incarnation = order.incarnation
        self._write(Action.LOAD, current, now_ms, current.size)
        takes_ms = self.hardware.overhead.resume_ms(current.memory_mib, current.vms)
        self._bring_up(current, Phase.RESUMING, takes_ms, now_ms)

    # what becomes of machines

    def _bring_up(self, instance: EmulatedInstance, meanwhile: Phase, default_ms: int, now_ms: int) -> None:
        """Let the machines run when they are ready, and end; both are scheduled now, as a simulation does."""
        running_ms = now_ms + self.injector.takes_ms(default_ms)
        running = Transition(Phase.RUNNING, said_of(instance.command, self.hardware.reference_mips))
        if running_ms > now_ms:
            self._come_to(instance, Transition(meanwhile), now_ms)
            self._schedule_change(instance, running_ms, running)
        else:
            self._come_to(instance, running, now_ms)
        self._schedule_end(instance, running_ms)

    def _schedule_end(self, instance: EmulatedInstance, running_ms: int) -> None:
        lasts_ms = self.injector.crashes_after_ms(instance.lease_id, instance.incarnation)
        folder = WorkingFolder(instance.files.inputs, self._read)
        program = self._ending(instance, running_ms, folder)
        if program is not None:
            left_ms = max(0, self.hardware.wall_ms(program.work - instance.work_done))
            if lasts_ms is None or left_ms <= lasts_ms:
                ended = replace(_ended(program, instance.vms), left=tuple(folder.files.values()))
                self._schedule_change(instance, running_ms + left_ms, ended)
                return
        if lasts_ms is not None:
            self._schedule_change(instance, running_ms + lasts_ms, CRASHED)

    def _ending(self, instance: EmulatedInstance, now_ms: int, folder: WorkingFolder | None = None) -> Ending | None:
        """Say how a command ends here and now: as it would, or as a fault has it."""
        program = ending(instance.command, self.hardware.reference_mips, folder)
        if not instance.command:
            return None
        status = self.injector.exit_status_of(instance.lease_id)
        lost = (self._node_faults.lost_from(name, now_ms) for name in instance.nodes)
        called = parted(instance.command)[1][0]
        if status == NOT_FOUND or any(called in names for names in lost):
            return not_found(called)
        if status == 0:
            return program
        part = self.injector.part_of_the_work(instance.lease_id)
        return failing(int(part * program.work) if program else 0, status)

    def _work_done(self, instance: EmulatedInstance, now_ms: int) -> int:
        program = self._ending(instance, now_ms) if instance.phase is Phase.ENDED else None
        if program is not None:
            return program.work
        return instance.work_done_at(now_ms, self.hardware.speed_mips)

    def _come_to(self, instance: EmulatedInstance, then: Transition, since_ms: int) -> None:
        instance.output, instance.error, instance.left = then.output, then.error, then.left
        self.become(instance, then.phase, since_ms, then.detail, exit_status=then.exit_status, fault=then.fault)
        if then.phase in BEGINNING:
            command = " ".join(instance.command) if then.phase is Phase.RUNNING else ""
            self._write(BEGINNING[then.phase], instance, since_ms, command or then.detail)

    def _fail_node(self, node: str, at_ms: int, then: Transition) -> None:
        """Let all that is on a node, also saved memory, come to this; what ended before it has ended.

        What was to come before is still to come: where the node was cut off it was only not to be seen yet.
        """
        for instance in self.all():
            if node in instance.nodes and not instance.is_over and self._loses_one(instance, node, at_ms):
                continue
            if node in instance.nodes and not instance.is_over:
                before = tuple(change for change in instance.coming if change.at_ms <= at_ms)
                if not any(change.then.phase in OVER for change in before):
                    instance.coming = before
                    self._schedule_change(instance, at_ms, then)
        self._let_happen(at_ms)

    def _loses_one(self, instance: EmulatedInstance, node: str, at_ms: int) -> bool:
        """Whether a command that runs goes on without one of its machines, as so many are left as it needs."""
        is_one_of_several = instance.nodes.count(node) == 1 and 0 < instance.least < len(instance.nodes)
        if instance.phase is not Phase.RUNNING or not is_one_of_several:
            return False
        self._nodes.take((node,), -instance.cores, -instance.memory_mib)
        self._nodes.take_gpus([one for one in instance.gpus if one[0] == node], -1)
        instance.nodes = tuple(one for one in instance.nodes if one != node)
        instance.gpus = tuple(one for one in instance.gpus if one[0] != node)
        self.touch(instance)
        self.report(instance)
        self._write(Action.FAIL, instance, at_ms, f"on {node}, and goes on on {', '.join(instance.nodes)}")
        return True

    def _write(self, action: Action, instance: EmulatedInstance, at_ms: int, detail: str = "") -> None:
        self._audit.append(AuditLine(at_ms, instance.lease_id, instance.incarnation, action, detail))

    def room_changed(self, instance: EmulatedInstance, vms: int) -> None:
        """Count what is taken of each node."""
        sign = 1 if vms > 0 else -1
        self._nodes.take(instance.nodes, sign * instance.cores, sign * instance.memory_mib)
        self._nodes.take_gpus(instance.gpus, sign)

    # the schedule: times of changes, of which only those count that their instance still has coming

    def _schedule_change(self, instance: EmulatedInstance, at_ms: int, then: Transition) -> None:
        self._number += 1
        instance.coming = (*instance.coming, Change(at_ms, self._number, then))
        self.touch(instance)
        heappush(self._schedule, (at_ms, self._number, instance.lease_id))
        if len(self._schedule) > self._clear_schedule_at:
            self._clear_schedule()

    def _clear_schedule(self) -> None:
        self._schedule = [(change.at_ms, change.number, one.lease_id) for one in self.all() for change in one.coming]
        heapify(self._schedule)
        self._clear_schedule_at = max(_ALWAYS_KEPT, 2 * len(self._schedule))

    def _let_happen(self, now_ms: int) -> None:
        """Let everything happen that is due, each at its time; on nodes in the dark it is seen later."""
        while (due_ms := self._next_due_ms()) is not None and due_ms <= now_ms:
            _, number, lease_id = heappop(self._schedule)
            instance = self._current[lease_id]
            dark_until_ms = self._node_faults.dark_until_ms(instance.nodes, now_ms)
            if dark_until_ms:
                heappush(self._schedule, (dark_until_ms, number, lease_id))
                continue
            change, *later = instance.coming
            instance.coming = tuple(later)
            self._come_to(instance, change.then, change.at_ms)

    def _next_due_ms(self) -> int | None:
        while self._schedule and not self._is_coming(*self._schedule[0]):
            heappop(self._schedule)
        return self._schedule[0][0] if self._schedule else None

    def _is_coming(self, _at_ms: int, number: int, lease_id: int) -> bool:
        instance = self.current(lease_id)
        return instance is not None and any(change.number == number for change in instance.coming)


def _ended(program: Ending, vms: int) -> Transition:
    status = program.exit_status
    return Transition(
        Phase.ENDED, program.detail, status, fault_of_exit(status), program.output * vms, program.error * vms
    )
