"""Which orders are followed? The same rules for every kind of machines, and nothing is done here.

An order that is repeated is carried out once, and one that comes too late does nothing:

* An order for an earlier incarnation than the current one, or for one that was stopped or sent away, is out of
  date. A tombstone remembers what was stopped, so that a late copy of its START never starts it again. Whoever orders
  what was stopped to come is told that it never will: where they did not stop it themselves (machines that were
  reported under the number of another lease, an older store that was put back), they go on with another incarnation.
* START, RESUME and RECEIVE of the current incarnation were carried out before.
* STOP and SEND of what is not here leave a tombstone, and do nothing else.

An order that comes too early (SUSPEND of an incarnation that is not here yet, START while an earlier one has not been
stopped) is a transient problem.
"""

from collections.abc import Callable
from enum import StrEnum

from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, Verb
from leasehold.service.drivers.reconciler.instances import BRINGS_UP, OVER, Instance

_NOTHING_TO_SAVE = OVER | {Phase.SAVING, Phase.SAVED}


class Action(StrEnum):
    """What a driver does with an order.

    NOTHING    it is out of date, or was carried out before
    CREATE     take in a new instance, to be started
    RECEIVE    take in a new instance, which comes from another site
    SAVE       save the memory of the current one
    RESUME     bring the current one back from saved memory, as the incarnation of the order
    END_AGAIN  give the current one the incarnation of the order: it ended before it could be saved
    SEND       leave a tombstone, and let another site have the current instance if there is one
    STOP       leave a tombstone, and remove the current instance if there is one
    """

    NOTHING = "nothing"
    CREATE = "create"
    RECEIVE = "receive"
    SAVE = "save"
    RESUME = "resume"
    END_AGAIN = "end again"
    SEND = "send"
    STOP = "stop"


Refuse = Callable[[Action], Problem | None]
"""Says why an instance cannot come (CREATE, RECEIVE, RESUME): no room, no such node, whatever the driver knows."""


def decide(
    order: Order, current: Instance | None, tombstone: int, capabilities: Capabilities, refuse: Refuse
) -> Action | Problem:
    """Decide what is done with an order, given the current instance of its lease and the tombstone of that."""
    if is_out_of_date(order, current, tombstone):
        return never_comes(order, current, tombstone) or Action.NOTHING
    problem = not_capable(order, capabilities)
    if problem is not None:
        return problem
    action = _ACTIONS[order.verb](order, current)
    if action in _BRINGS_IN and isinstance(action, Action):
        return refuse(action) or action
    return action


def is_out_of_date(order: Order, current: Instance | None, tombstone: int) -> bool:
    """Whether an order came too late, or was carried out before."""
    if order.incarnation <= tombstone:
        return True
    if current is None or order.incarnation > current.incarnation:
        return False
    return order.incarnation < current.incarnation or order.verb in BRINGS_UP


def never_comes(order: Order, current: Instance | None, tombstone: int) -> Problem | None:
    """Say why what an order brings up never will come; None where it is here, or a later one is, or it brings nothing.

    An order that was closed when its lease was stopped may still get here; nobody waits for this answer then.
    """
    if current is not None or order.incarnation > tombstone or order.verb not in BRINGS_UP:
        return None
    return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} was stopped here before", again=False)


def not_capable(order: Order, capabilities: Capabilities) -> Problem | None:
    """Say why these machines can never do what an order asks for."""
    if order.verb in {Verb.SUSPEND, Verb.RESUME} and not capabilities.suspend:
        return Problem("these machines cannot be suspended", again=False)
    if order.verb in {Verb.SEND, Verb.RECEIVE} and not capabilities.migrate:
        return Problem("these machines cannot be moved", again=False)
    if order.verb is Verb.START and order.command and not capabilities.commands:
        return Problem("these machines cannot run commands", again=False)
    if order.verb is Verb.START and order.ssh_key and not capabilities.login:
        return Problem("nobody can log in to these machines by a key", again=False)
    return None


def no_such_image(order: Order, capabilities: Capabilities) -> Problem | None:
    """Say that there is no image of the name that an order has; None where there is, or it has none."""
    image = order.constraints.image
    return (
        Problem(f"there is no image {image} here", again=False) if image and image not in capabilities.images else None
    )


def no_room_for(vms: int, used_vms: int, slots: int) -> Problem | None:
    """Say why so many VMs cannot come to a site that has others; None where they can."""
    if used_vms + vms <= slots:
        return None
    fits = vms <= slots
    return Problem(f"no room for {vms} VMs: {used_vms} of {slots} are in use", again=fits, full=fits)


_BRINGS_IN = frozenset({Action.CREATE, Action.RECEIVE, Action.RESUME})


def _bring_in(order: Order, current: Instance | None) -> Action | Problem:
    if current is not None:
        return Problem(f"incarnation {current.incarnation} of lease {order.lease_id} is {current.phase} here")
    return Action.CREATE if order.verb is Verb.START else Action.RECEIVE


def _suspend(order: Order, current: Instance | None) -> Action | Problem:
    if current is None or current.incarnation < order.incarnation:
        return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} is not here yet")
    return Action.NOTHING if current.phase in _NOTHING_TO_SAVE else Action.SAVE


def _resume(order: Order, current: Instance | None) -> Action | Problem:
    if current is not None and current.phase is Phase.ENDED:
        return Action.END_AGAIN
    if current is None or current.phase in OVER:
        return Problem(f"no memory of lease {order.lease_id} is saved here", again=False)
    if current.phase is not Phase.SAVED:
        return Problem(f"the memory of lease {current.lease_id} is not saved: it is {current.phase}")
    return Action.RESUME


_ACTIONS: dict[Verb, Callable[[Order, Instance | None], Action | Problem]] = {
    Verb.START: _bring_in,
    Verb.RECEIVE: _bring_in,
    Verb.SUSPEND: _suspend,
    Verb.RESUME: _resume,
    Verb.SEND: lambda _order, _current: Action.SEND,
    Verb.STOP: lambda _order, _current: Action.STOP,
}
