"""What do the machines of a lease mean for it, and what is to be done about them next?"""

from collections.abc import Sequence

from leasehold.service.drivers.kept.holding import OVER, Goal, Holding
from leasehold.service.drivers.kept.machine import Machine, State, Work
from leasehold.service.drivers.protocol import Phase

Meaning = tuple[Phase, str]

_ENDED = frozenset({State.ENDED})
_UP = frozenset({State.UP, State.ENDED})
_RUNNING_ON = frozenset({State.UP, State.BARE, State.COMING})


def meaning(holding: Holding, machines: Sequence[Machine]) -> Meaning:
    """Say in which phase a holding is, and why if that needs saying; on the way out it keeps its phase."""
    if holding.is_leaving or holding.phase in OVER:
        return holding.phase, holding.detail
    failed = next((machine for machine in machines if machine.state is State.FAILED), None)
    if failed is not None:
        return Phase.FAILED, failed.detail
    if holding.came_up and len(machines) < holding.vms:
        return Phase.FAILED, f"{holding.vms - len(machines)} of {holding.vms} machines are lost"
    if holding.vms and _all_are(machines, holding, _ENDED):
        return Phase.ENDED, next((machine.detail for machine in machines if machine.detail), "")
    return _wanted_up(holding, machines) if holding.goal is Goal.UP else _wanted_saved(holding, machines)


def _wanted_up(holding: Holding, machines: Sequence[Machine]) -> Meaning:
    if _all_are(machines, holding, _UP):
        return Phase.RUNNING, ""
    if holding.phase is Phase.RUNNING and any(machine.state is State.SAVED for machine in machines):
        return Phase.RESUMING, "somebody else has saved its memory"
    return holding.phase, holding.detail


def _wanted_saved(holding: Holding, machines: Sequence[Machine]) -> Meaning:
    is_saved = len(machines) == holding.vms and not any(map(_has_to_be_saved, machines))
    if _was_never_made(holding) or (is_saved and all(machine.state is not State.LEAVING for machine in machines)):
        return Phase.SAVED, ""
    return holding.phase, holding.detail


def _was_never_made(holding: Holding) -> bool:
    """Whether there is nothing of it, here or on its way."""
    return not (holding.begun or holding.came_up or holding.from_site)


def nodes_of(holding: Holding, machines: Sequence[Machine]) -> tuple[str, ...]:
    """Say on which node each machine of a holding is; empty while any is missing, or nobody knows."""
    nodes = tuple(machine.node for machine in machines)
    return nodes if len(nodes) == holding.vms and all(nodes) else ()


def _has_to_be_saved(machine: Machine) -> bool:
    """Also one whose command has ended, if it would otherwise keep its room."""
    return machine.state in _RUNNING_ON or (machine.state is State.ENDED and machine.takes_room)


def _all_are(machines: Sequence[Machine], holding: Holding, states: frozenset[State]) -> bool:
    return len(machines) == holding.vms and all(machine.state in states for machine in machines)


def next_work(holding: Holding, machines: Sequence[Machine]) -> Work | None:
    """Say what brings a holding nearer to its goal; None where nothing does, or nothing has to."""
    if holding.goal is Goal.GONE:
        return Work.REMOVE if machines else None
    if holding.phase in OVER and holding.goal is not Goal.AWAY:
        return None
    if len(machines) < holding.vms and not holding.came_up:
        return _bring_in(holding)
    return _go_on(holding.goal, machines)


def _go_on(goal: Goal, machines: Sequence[Machine]) -> Work | None:
    states = {machine.state for machine in machines}
    wanted = {
        Goal.AWAY: (Work.SEND, bool(machines)),
        Goal.SAVED: (Work.SAVE, any(map(_has_to_be_saved, machines))),
        Goal.UP: (Work.RESUME, State.SAVED in states),
    }
    work, is_needed = wanted[goal]
    if is_needed:
        return work
    return Work.RUN if goal is Goal.UP and State.BARE in states else None


def _bring_in(holding: Holding) -> Work | None:
    """Machines that are still to come are made, or come from elsewhere; what was never begun may stay so."""
    if holding.goal is Goal.SAVED and _was_never_made(holding):
        return None
    return Work.AWAIT if holding.from_site else Work.CREATE
