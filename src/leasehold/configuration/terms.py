"""On which terms a cluster lends: ``[defaults]``, and ``[[cluster]]`` beside its name and size."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from leasehold.configuration.guards import guard_to_dict, read_guard
from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain, seconds
from leasehold.configuration.policies import absolute, find_victim_policy
from leasehold.leasing.disciplines import reservation_depth
from leasehold.leasing.overhead import OverheadModel, Storage
from leasehold.leasing.repair import REPAIRS
from leasehold.leasing.victims.guard import Guard

LOCAL_QUEUES = ("queue", "refuse")
LIVE_POLICY = "hybrid:100"
"""The backfilling discipline of sites behind a live gateway whose owners say nothing else."""

_TOLD_OTHERWISE = frozenset({"non_preemptable_max_ms", "guard"})


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """What the owner of a cluster decides about it, apart from its name and size.

    ``speed_mips``              speed of one slot
    ``local_policy``            backfilling discipline for the owner's users, ``guest_policy`` for guests
    ``victims``                 who gives way; ``value_order``: only after all less valuable lease types
    ``guard``                   what guests are guaranteed whoever gives way
    ``local_queue``             ``queue`` or ``refuse`` a local request that cannot start at once
    ``non_preemptable_share``   part of the slots that Non-preemptable guests may have, None for all
    ``non_preemptable_max_ms``  longest such guest on this cluster, None for any
    ``repair``                  which guests are planned anew after the owner's users took room
    ``overhead``                what it costs to preempt a guest
    """

    speed_mips: int = 1
    local_policy: str = "conservative"
    guest_policy: str = "conservative"
    victims: str = "moml"
    value_order: bool = True
    guard: Guard = field(default_factory=Guard)
    local_queue: str = "queue"
    non_preemptable_share: float | None = None
    non_preemptable_max_ms: int | None = None
    repair: str = "conflicts"
    overhead: OverheadModel = field(default_factory=OverheadModel)

    def to_dict(self) -> Plain:
        """Give the keys of ``[defaults]`` or ``[[cluster]]``, those that are None left out."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _TOLD_OTHERWISE}
        told |= guard_to_dict(self.guard)
        told["overhead"] = {f.name: getattr(self.overhead, f.name) for f in fields(self.overhead)}
        told["overhead"]["storage"] = str(self.overhead.storage)
        told |= seconds("non_preemptable_max_s", self.non_preemptable_max_ms)
        return {key: value for key, value in told.items() if value is not None}


def read_terms(keys: Keys, usual: ClusterTerms, folder: Path) -> ClusterTerms:
    """Read the terms of a cluster, or those of all clusters, and refuse keys that are no terms.

    Whatever is not said is as ``usual``; a policy's file counts from ``folder``. Raises InvalidField or
    UnknownName with the place of the key as field, InputError for a policy's file.
    """
    victims = absolute(keys.text("victims", usual.victims), folder)
    with keys.at("victims"):
        find_victim_policy(victims)
    terms = ClusterTerms(
        speed_mips=keys.whole("speed_mips", usual.speed_mips),
        local_policy=_discipline(keys, "local_policy", usual.local_policy),
        guest_policy=_discipline(keys, "guest_policy", usual.guest_policy),
        victims=victims,
        value_order=keys.flag("value_order", default=usual.value_order),
        guard=read_guard(keys, usual.guard),
        local_queue=keys.name_of("local_queue", LOCAL_QUEUES, usual.local_queue),
        non_preemptable_share=keys.number("non_preemptable_share", usual.non_preemptable_share, 0, 1),
        non_preemptable_max_ms=keys.milliseconds("non_preemptable_max_s", usual.non_preemptable_max_ms, 1),
        repair=keys.name_of("repair", REPAIRS, usual.repair),
        overhead=_overhead(keys.table("overhead"), usual.overhead),
    )
    keys.done()
    return terms


def _discipline(keys: Keys, key: str, usual: str) -> str:
    name = keys.text(key, usual)
    with keys.at(key):
        reservation_depth(name)
    return name


def _overhead(keys: Keys, usual: OverheadModel) -> OverheadModel:
    storage = Storage(keys.name_of("storage", list(Storage), usual.storage))
    numbers = {
        f.name: keys.take(f.name, getattr(usual, f.name))
        for f in fields(OverheadModel)
        if f.name != "storage"
    }
    keys.done()
    with keys.inside():
        return replace(usual, storage=storage, **numbers)
