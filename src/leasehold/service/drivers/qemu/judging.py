"""Which orders are followed, and what becomes of a lease by them? Rules only: nothing is done here.

Who is told the same thing twice does it once, and an order that comes too late does nothing:

* An order for an earlier incarnation than what is here, or for one that was stopped or sent away, is out of
  date. What was stopped is remembered, so that a late copy of its START never boots it again.
* START, RESUME and RECEIVE of the incarnation that is here were carried out before.
* STOP and SEND of what is not here have nothing to do.

An order that comes too early (SUSPEND for an incarnation that is not here yet, START where an earlier one has
not been stopped) is a problem that may solve itself.
"""

from dataclasses import dataclass, replace

from leasehold.service.drivers.facts import no_room_for
from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, Verb
from leasehold.service.drivers.qemu.machine import VmHardware
from leasehold.service.drivers.qemu.record import OVER, Handover, Memory, Record, new_record

_BRINGS_UP = frozenset({Verb.START, Verb.RESUME, Verb.RECEIVE})
_NOTHING_TO_SAVE = OVER | {Phase.SAVING, Phase.SAVED}


class Nothing:
    """There is nothing to do: it is so already, or is not wanted any more."""


class Leave:
    """What is not here is not to come: the incarnation is remembered as gone."""


Verdict = Problem | Nothing | Leave | Record
"""A Record is what the lease is from now on."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a site stands when an order comes.

    ``here``       what it has of the lease, and None also of what has left
    ``last_gone``  the last incarnation of the lease that was stopped or sent away
    ``used_vms``   slots in use
    ``hardware``   what a machine for this order would be made of; None where it cannot be made
    ``source``     what the site that it is to be received from has of it
    ``tight``      why memory that was saved here has no room on this computer just now
    """

    now_ms: int
    slots: int
    used_vms: int
    can: Capabilities
    here: Record | None
    last_gone: int
    hardware: VmHardware | Problem | None = None
    source: Record | None = None
    tight: Problem | None = None


def judge(order: Order, standing: Standing) -> Verdict:
    """Say what becomes of a lease by an order."""
    if _is_past(order, standing):
        return Nothing()
    return _cannot(order, standing.can) or _WAYS[order.verb](order, standing)


def _is_past(order: Order, standing: Standing) -> bool:
    here = standing.here
    if order.incarnation <= standing.last_gone:
        return True
    if here is None or order.incarnation > here.incarnation:
        return False
    is_told_again = order.verb in _BRINGS_UP or (bool(here.to_site) and order.verb is not Verb.STOP)
    return order.incarnation < here.incarnation or is_told_again or here.is_doomed


def _cannot(order: Order, able: Capabilities) -> Problem | None:
    if order.verb in {Verb.SUSPEND, Verb.RESUME} and not able.suspend:
        return Problem("these machines cannot be suspended", again=False)
    if order.verb in {Verb.SEND, Verb.RECEIVE} and not able.migrate:
        return Problem("these machines cannot be moved", again=False)
    if order.verb is Verb.START and order.command and not able.commands:
        return Problem("these machines cannot run commands", again=False)
    return None


def _start(order: Order, standing: Standing) -> Verdict:
    problem = _somebody_there(standing.here) or _no_room_for(order.vms, standing)
    if problem is not None:
        return problem
    if isinstance(standing.hardware, Problem):
        return standing.hardware
    return new_record(order, Phase.STARTING, standing.now_ms, standing.hardware)


def _receive(order: Order, standing: Standing) -> Verdict:
    problem = _somebody_there(standing.here) or _no_room_for(order.vms, standing)
    if problem is not None:
        return problem
    source = standing.source
    if source is None:
        return Problem(f"site {order.other_site} was not told to send lease {order.lease_id} yet")
    received = new_record(order, Phase.RECEIVING, standing.now_ms, source.hardware)
    return replace(received, command=source.command, progress=source.progress, vms=source.vms)


def _suspend(order: Order, standing: Standing) -> Verdict:
    here = standing.here
    if here is None or here.incarnation < order.incarnation:
        return Problem(f"incarnation {order.incarnation} of lease {order.lease_id} is not here yet")
    if here.phase in _NOTHING_TO_SAVE:
        return Nothing()
    return replace(here, phase=Phase.SAVING, since_ms=standing.now_ms, detail="")


def _resume(order: Order, standing: Standing) -> Verdict:
    here = standing.here
    if here is not None and here.phase is Phase.ENDED:
        # It ended in the moment when it was to be suspended, and so has nothing more to do.
        return replace(here, incarnation=order.incarnation, since_ms=standing.now_ms)
    if here is None or here.phase in OVER:
        return Problem(f"no memory of lease {order.lease_id} is saved here", again=False)
    if here.phase is not Phase.SAVED:
        return Problem(f"the memory of lease {here.lease_id} is not saved: it is {here.phase}")
    problem = _no_room_for(here.vms, standing) or standing.tight
    return problem or replace(here, incarnation=order.incarnation, phase=Phase.RESUMING, since_ms=standing.now_ms)


def _send(order: Order, standing: Standing) -> Verdict:
    here = standing.here
    if here is None:
        return Leave()
    is_at_rest = here.phase in OVER or here.memory is Memory.FILES
    handover = Handover.PARCEL if is_at_rest else Handover.LIVE
    return replace(here, incarnation=order.incarnation, to_site=order.other_site, handover=handover)


def _stop(_: Order, standing: Standing) -> Verdict:
    return Leave() if standing.here is None else replace(standing.here, is_doomed=True)


_WAYS = {
    Verb.START: _start,
    Verb.SUSPEND: _suspend,
    Verb.RESUME: _resume,
    Verb.RECEIVE: _receive,
    Verb.SEND: _send,
    Verb.STOP: _stop,
}


def _somebody_there(here: Record | None) -> Problem | None:
    if here is None:
        return None
    return Problem(f"incarnation {here.incarnation} of lease {here.lease_id} is {here.phase} here")


def _no_room_for(vms: int, standing: Standing) -> Problem | None:
    return no_room_for(vms, standing.used_vms, standing.slots)
