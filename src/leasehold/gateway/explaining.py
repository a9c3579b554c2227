"""What would have saved a lease that was preempted? The policy that chose the victims chooses again.

A preemption is recorded with all leases that could have given way (`leasehold.model.effect.Preemption`). A policy keeps
no state and makes the same choice of the same candidates; so what it would have chosen, had one of them been another,
is found by asking it, and not by guessing at its rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.request import LeaseType

Cost = Callable[[LeaseType, int], int]
"""What preempting a lease of this type and width is charged, in VM-milliseconds."""


class Remedy(StrEnum):
    """In what a victim would have been different, had it been spared."""

    TYPE = "type"
    VMS = "vms"
    ALONE = "alone"
    """Nothing: without it the others could not have freed enough."""


@dataclass(frozen=True, slots=True)
class Spared:
    """A victim as which a lease would have been spared: of another type, or narrower."""

    by: Remedy
    lease_type: LeaseType
    vms: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A choice of victims, made once more.

    ``agrees``   whether it is the choice that was recorded: else the site's policy is another by now
    ``mine``     the lease as it was a candidate
    ``spared``   as what it would have been spared, each tried
    """

    agrees: bool
    mine: Candidate
    spared: tuple[Spared, ...]


def replay(
    policy: VictimPolicy,
    candidates: Sequence[Candidate],
    needed_vms: int,
    victims: Sequence[int],
    lease_id: int,
    cost_vm_ms: Cost,
) -> Replay | None:
    """Choose again, and with this victim as another; None where it was no candidate, or the leases are too few."""
    mine = next((one for one in candidates if one.lease_id == lease_id), None)
    if mine is None or sum(one.vms for one in candidates) < needed_vms:
        return None
    again = policy.choose(candidates, needed_vms)
    agrees = {one.lease_id for one in again.victims} == set(victims)
    if not agrees:
        return Replay(agrees, mine, ())
    others = [one for one in candidates if one is not mine]
    if sum(one.vms for one in others) < needed_vms:
        return Replay(agrees, mine, (Spared(Remedy.ALONE, mine.lease_type, mine.vms),))

    def is_spared(changed: Candidate) -> bool:
        chosen = policy.choose([*others, changed], needed_vms)
        return all(one.lease_id != lease_id for one in chosen.victims)

    spared: list[Spared] = []
    for kind in (LeaseType.CANCELABLE, LeaseType.SUSPENDABLE, LeaseType.MIGRATABLE):
        lost_vm_ms = mine.vms * mine.ran_ms if kind is LeaseType.CANCELABLE else 0
        changed = replace(mine, lease_type=kind, cost_vm_ms=cost_vm_ms(kind, mine.vms), lost_vm_ms=lost_vm_ms)
        if kind is not mine.lease_type and is_spared(changed):
            spared.append(Spared(Remedy.TYPE, kind, mine.vms))
    for vms in dict.fromkeys((mine.vms // 2, 1)):
        lost_vm_ms = mine.lost_vm_ms * vms // mine.vms
        changed = replace(mine, vms=vms, cost_vm_ms=cost_vm_ms(mine.lease_type, vms), lost_vm_ms=lost_vm_ms)
        is_enough = sum(one.vms for one in others) + vms >= needed_vms
        if 0 < vms < mine.vms and is_enough and is_spared(changed):
            spared.append(Spared(Remedy.VMS, mine.lease_type, vms))
            break
    return Replay(agrees, mine, tuple(spared))
