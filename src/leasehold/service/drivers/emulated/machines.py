"""The heart of an emulated site: what becomes of machines that are given orders, as time passes.

There is no clock and no file here. The times are exactly those by which a simulation reckons: a command ends
when its work is done, counted from when the machines run, and saving, loading and moving take what the
overhead model says. Changes that are due at the same time happen in the order in which they were scheduled.

Who is told the same thing twice does it once, and an order that comes too late does nothing:

* An order for an earlier incarnation than what is here, or for one that was stopped or sent away, is out of
  date. What was stopped is remembered, so that a late copy of its START never boots it again.
* START, RESUME and RECEIVE of the incarnation that is here were carried out before.
* STOP and SEND of what is not here have nothing to do.

An order that comes too early (SUSPEND for an incarnation that is not here yet, START where an earlier one has
not been stopped) is a problem that may solve itself.
"""

from collections.abc import Callable, Sequence

from leasehold.jobs.job import Fault
from leasehold.service.drivers.emulated.audit import Action
from leasehold.service.drivers.emulated.floor import Floor, Unwritten
from leasehold.service.drivers.emulated.hardware import Hardware
from leasehold.service.drivers.emulated.holding import OVER, Becoming, Holding
from leasehold.service.drivers.emulated.mishaps import Mishaps
from leasehold.service.drivers.emulated.node_floor import NodeFloor
from leasehold.service.drivers.emulated.programs import Ending, ending, failing, not_found, said_of
from leasehold.service.drivers.endings import NOT_FOUND, fault_of_exit
from leasehold.service.drivers.facts import NodeFacts, no_room_for
from leasehold.service.drivers.protocol import Observation, Order, Phase, Problem, Verb

_BRINGS_UP = frozenset({Verb.START, Verb.RESUME, Verb.RECEIVE})
_NOTHING_TO_SAVE = OVER | {Phase.SAVING, Phase.SAVED}

CRASHED = Becoming(Phase.FAILED, "emulated fault: crash", fault=Fault.SERVICE_STOPPED)
MEMORY_LOST = Becoming(Phase.FAILED, "emulated fault: memory was not saved", fault=Fault.SERVICE_STOPPED)

_Way = Callable[[Order, Holding | None, int], Problem | None]


class EmulatedMachines:
    """The machines of one site, which follow orders."""

    def __init__(self, hardware: Hardware, mishaps: Mishaps, floor: Floor | None = None) -> None:
        """Go on with what is on the floor; without one the site is empty."""
        self.hardware = hardware
        self.mishaps = mishaps
        self._floor = floor or Floor()
        self._nodes = NodeFloor(self._floor, hardware, mishaps)
        self._ways: dict[Verb, _Way] = {
            Verb.START: self._start,
            Verb.SUSPEND: self._suspend,
            Verb.RESUME: self._resume,
            Verb.RECEIVE: self._receive,
            Verb.SEND: self._remove,
            Verb.STOP: self._remove,
        }

    def carry_out(self, orders: Sequence[Order], now_ms: int) -> dict[str, Problem]:
        """Follow orders in their sequence; returns the problems of those that were not taken on, by id."""
        answers = [(order.id, self._follow(order, now_ms)) for order in orders]
        return {name: problem for name, problem in answers if problem is not None}

    def pass_time(self, now_ms: int) -> list[Observation]:
        """Let everything happen that is due; returns what has changed since the last time, by orders too.

        Of what was stopped or sent away nothing can be observed, and nothing is said.
        """
        self._nodes.pass_time(now_ms)
        return self._floor.take_news()

    def next_change_ms(self) -> int | None:
        """When the next change is due by itself; None if none is."""
        due_ms = (self._floor.next_change_ms(), self._nodes.next_fate_ms())
        return min((at_ms for at_ms in due_ms if at_ms is not None), default=None)

    def observe(self) -> list[Observation]:
        """See everything that is here, by lease; as it was when time was last passed."""
        return self._floor.observe()

    def crash(self, lease_id: int, now_ms: int) -> None:
        """Lose the machines of a lease at once, or its saved memory; nothing happens where there are none."""
        self._floor.let_happen(now_ms)
        here = self._floor.here(lease_id)
        if here is not None and here.phase not in OVER:
            self._floor.call_off(here)
            self._floor.become(here, CRASHED, now_ms)

    def befall(self, node: str, fault: Fault, now_ms: int, for_ms: int) -> None:
        """Let something be wrong with a node from now on, for so long; raises UnknownName."""
        self._nodes.befall(node, fault, now_ms, now_ms + for_ms)

    def lose_software(self, node: str, software: str, now_ms: int, for_ms: int) -> None:
        """Let software be gone from a node for so long; raises UnknownName for a name that is none."""
        self._nodes.lose(node, software, now_ms + for_ms)

    def nodes(self, now_ms: int) -> list[NodeFacts]:
        """Look at the nodes, as they were when time was last passed."""
        return self._nodes.facts(now_ms)

    def output(self, lease_id: int) -> str | None:
        """Give what the command of a lease has written, once it has ended; None where nothing is here."""
        here = self._floor.here(lease_id)
        return None if here is None else here.now.output

    def take_unwritten(self) -> Unwritten:
        """Take what has to be written down since the last time that this was asked."""
        return self._floor.take_unwritten()

    # which orders are followed

    def _follow(self, order: Order, now_ms: int) -> Problem | None:
        self._floor.let_happen(now_ms)
        here = self._floor.here(order.lease_id)
        if self._is_past(order, here):
            return None
        unreachable = None if here is None else self._nodes.unreachable(here, now_ms)
        if unreachable is not None:
            return unreachable
        problem = self._cannot(order) or self.mishaps.problem_of(order, now_ms)
        return problem or self._ways[order.verb](order, here, now_ms)

    def _is_past(self, order: Order, here: Holding | None) -> bool:
        if order.incarnation <= self._floor.last_gone(order.lease_id):
            return True
        if here is None or order.incarnation > here.incarnation:
            return False
        return order.incarnation < here.incarnation or order.verb in _BRINGS_UP

    def _cannot(self, order: Order) -> Problem | None:
        able = self.hardware.capabilities
        if order.verb in {Verb.SUSPEND, Verb.RESUME} and not able.suspend:
            return Problem("these machines cannot be suspended", again=False)
        if order.verb in {Verb.SEND, Verb.RECEIVE} and not able.migrate:
            return Problem("these machines cannot be moved", again=False)
        if order.verb is Verb.START and order.command and not able.commands:
            return Problem("these machines cannot run commands", again=False)
        return None

    def _no_room_for(self, vms: int) -> Problem | None:
        return no_room_for(vms, self._floor.used_vms, self.hardware.slots)

    # how each is followed

    def _start(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        problem = _somebody_there(here) or self._cannot_come(order, now_ms)
        if problem is None:
            holding = self._take_in(order, Action.BOOT, now_ms)
            self._bring_up(holding, Phase.STARTING, self.hardware.boot_ms, now_ms)
        return problem

    def _receive(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        problem = _somebody_there(here) or self._cannot_come(order, now_ms)
        if problem is None:
            holding = self._take_in(order, Action.RECEIVE, now_ms)
            usual_ms = self.hardware.overhead.migrate_ms(order.memory_mib, order.vms)
            self._bring_up(holding, Phase.RECEIVING, usual_ms, now_ms)
        return problem

    def _cannot_come(self, order: Order, now_ms: int) -> Problem | None:
        if order.on.image:
            return Problem(f"there is no image {order.on.image} here", again=False)
        wishes, size = order.on, (order.vms, order.memory_mib)
        return self._nodes.problem_with(wishes, *size, now_ms) or self._no_room_for(order.vms)

    def _suspend(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        if here is None or here.incarnation < order.incarnation:
            return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} is not here yet")
        if here.phase not in _NOTHING_TO_SAVE:
            self._save(here, now_ms)
        return None

    def _resume(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        """Go on with the work that the saved memory holds, whatever the order believes of it."""
        if here is not None and here.phase is Phase.ENDED:
            # It ended in the moment when it was to be suspended, and so has nothing more to do.
            here.incarnation = order.incarnation
            self._floor.become(here, here.now, now_ms)
            return None
        if here is None or here.phase in OVER:
            return Problem(f"no memory of lease {order.lease_id} is saved here", again=False)
        if here.phase is not Phase.SAVED:
            return Problem(f"the memory of lease {here.lease_id} is not saved: it is {here.phase}")
        problem = self._nodes.problem_with_return(here, now_ms) or self._no_room_for(here.vms)
        if problem is None:
            self._nodes.place(here, now_ms)
            here.incarnation = order.incarnation
            self._floor.write(Action.LOAD, here, now_ms, here.size)
            usual_ms = self.hardware.overhead.resume_ms(here.memory_mib, here.vms)
            self._bring_up(here, Phase.RESUMING, usual_ms, now_ms)
        return problem

    def _remove(self, order: Order, here: Holding | None, now_ms: int) -> Problem | None:
        if here is not None:
            detail = f"to {order.other_site}" if order.other_site else ""
            self._floor.write(Action(order.verb), here, now_ms, detail)
            if order.verb is Verb.SEND:
                self._floor.send(here, self._work_done(here, now_ms))
        self._floor.leave(order.lease_id, order.incarnation)
        return None

    # what becomes of it

    def _work_done(self, here: Holding, now_ms: int) -> int:
        program = self._fate(here, now_ms) if here.phase is Phase.ENDED else None
        if program is not None:
            return program.work
        return here.work_done_at(now_ms, self.hardware.speed_mips)

    def _save(self, here: Holding, now_ms: int) -> None:
        here.work_done = self._work_done(here, now_ms)
        self._floor.call_off(here)
        self._floor.write(Action.SAVE, here, now_ms, here.size)
        self._floor.become(here, Becoming(Phase.SAVING), now_ms)
        usual_ms = self.hardware.overhead.suspend_ms(here.memory_mib, here.vms)
        at_ms = now_ms + self.mishaps.takes_ms(usual_ms)
        if self.mishaps.loses_memory(here.lease_id, here.incarnation):
            self._floor.schedule(here, at_ms, MEMORY_LOST)
        else:
            self._floor.schedule(here, at_ms, Becoming(Phase.SAVED))

    def _take_in(self, order: Order, action: Action, now_ms: int) -> Holding:
        holding = Holding.ordered(order, now_ms)
        self._nodes.place(holding, now_ms)
        self._floor.enter(holding)
        origin = f" from {order.other_site}" if order.other_site else ""
        self._floor.write(action, holding, now_ms, f"{holding.size}{origin}")
        return holding

    def _bring_up(self, holding: Holding, meanwhile: Phase, usual_ms: int, now_ms: int) -> None:
        """Let the machines run when they are ready, and end; both are scheduled now, as a simulation does."""
        running_ms = now_ms + self.mishaps.takes_ms(usual_ms)
        running = Becoming(Phase.RUNNING, said_of(holding.command, self.hardware.reference_mips))
        if running_ms > now_ms:
            self._floor.become(holding, Becoming(meanwhile), now_ms)
            self._floor.schedule(holding, running_ms, running)
        else:
            self._floor.become(holding, running, now_ms)
        self._schedule_end(holding, running_ms)

    def _schedule_end(self, holding: Holding, running_ms: int) -> None:
        lasts_ms = self.mishaps.crashes_after_ms(holding.lease_id, holding.incarnation)
        program = self._fate(holding, running_ms)
        if program is not None:
            left_ms = max(0, self.hardware.wall_ms(program.work - holding.work_done))
            if lasts_ms is None or left_ms <= lasts_ms:
                self._floor.schedule(holding, running_ms + left_ms, _ended(program, holding.vms))
                return
        if lasts_ms is not None:
            self._floor.schedule(holding, running_ms + lasts_ms, CRASHED)

    def _fate(self, holding: Holding, now_ms: int) -> Ending | None:
        """Say how a command ends here and now: as it would, or as a mishap has it."""
        program = ending(holding.command, self.hardware.reference_mips)
        if not holding.command:
            return None
        status = self.mishaps.exit_status_of(holding.lease_id)
        if status == NOT_FOUND or self._nodes.have_lost(holding.command[0], holding, now_ms):
            return not_found(holding.command[0])
        if status == 0:
            return program
        part = self.mishaps.part_of_the_work(holding.lease_id)
        return failing(int(part * program.work) if program else 0, status)


def _ended(program: Ending, vms: int) -> Becoming:
    status = program.exit_status
    return Becoming(Phase.ENDED, program.detail, status, fault_of_exit(status), program.output * vms)


def _somebody_there(here: Holding | None) -> Problem | None:
    if here is None:
        return None
    return Problem(f"incarnation {here.incarnation} of lease {here.lease_id} is {here.phase} here")
