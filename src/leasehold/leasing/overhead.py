"""What does it cost to preempt a lease?

Saving, loading and moving a VM takes as long as its memory takes through a disk or a network
(JPDC 2012, section 5.2). The defaults give that section's figures for a VM of 1024 MiB behind a
100 Mbit/s link: 160 s to suspend, 126 s to resume, 372.5 s to migrate. Migration is suspending, sending
and resuming, plus a fixed 0.6 s: what the figure leaves over.

All results are whole milliseconds, rounded up: room is never promised too early.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import StrEnum

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

_MOST = 2**31
_MIB_PER_GIB = 1024
_BITS_PER_MIB = 8 * 2**20
_BITS_PER_MS_AT_ONE_MBPS = 1_000


class Storage(StrEnum):
    """Where VM images and saved memory lie, which says how many VMs of a lease wait for each other."""

    LOCAL = "local"
    """Each node has a disk of its own: nodes work side by side, the VMs of one node in turn."""

    SHARED = "shared"
    """One file system serves all nodes: the VMs of a lease are saved and loaded in turn."""


class Overheads(ABC):
    """The times that preempting a lease takes at a site, by the memory of each of its VMs."""

    __slots__ = ()

    @property
    @abstractmethod
    def terminate_ms(self) -> int:
        """How long it takes to end a Cancelable lease."""

    @abstractmethod
    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""

    @abstractmethod
    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""

    @abstractmethod
    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it goes on in another cluster: saved, sent, loaded there."""

    def preempt_ms(self, lease_type: LeaseType, memory_mib: int, vms: int = 1) -> int:
        """How long a lease of this type is held up in all by being preempted once.

        Raises InvalidField for a Non-preemptable lease, which never is.
        """
        match lease_type:
            case LeaseType.CANCELABLE:
                return self.terminate_ms
            case LeaseType.SUSPENDABLE:
                return self.suspend_ms(memory_mib, vms) + self.resume_ms(memory_mib, vms)
            case LeaseType.MIGRATABLE:
                return self.migrate_ms(memory_mib, vms)
            case LeaseType.NON_PREEMPTABLE:
                raise InvalidField("lease_type", lease_type.label, "a type that may be preempted")

    def cost_vm_ms(self, lease_type: LeaseType, memory_mib: int, vms: int) -> int:
        """What one preemption is charged, in VM-milliseconds: each VM for as long as the lease is held up."""
        return vms * self.preempt_ms(lease_type, memory_mib, vms)


@dataclass(frozen=True, slots=True)
class OverheadModel(Overheads):
    """These times as they are configured; raises InvalidField for a field that makes no sense.

    ``suspend_ms_per_gib``  to save 1 GiB of a VM's memory (160 s is 6.4 MiB/s)
    ``resume_ms_per_gib``   to load it again
    ``network_mbps``        the link to other clusters, in 10^6 bit/s
    ``migrate_fixed_ms``    of each migration, whatever its size
    ``terminate_ms``        to end a Cancelable lease; the paper neglects it
    ``vms_per_node``        how many VMs share the disk of a node, with local storage
    """

    suspend_ms_per_gib: int = 160_000
    resume_ms_per_gib: int = 126_000
    network_mbps: int = 100
    migrate_fixed_ms: int = 600
    terminate_ms: int = 0
    storage: Storage = Storage.LOCAL
    vms_per_node: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "storage":
                least = 1 if field.name in {"network_mbps", "vms_per_node"} else 0
                _check_whole(field.name, getattr(self, field.name), least)
        if not isinstance(self.storage, Storage):
            raise InvalidField("storage", self.storage, f"one of {', '.join(Storage)}")

    def suspend_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until a lease of ``vms`` VMs has saved its memory."""
        return self._in_turn(vms) * _per_gib(memory_mib, self.suspend_ms_per_gib)

    def resume_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it has loaded it again."""
        return self._in_turn(vms) * _per_gib(memory_mib, self.resume_ms_per_gib)

    def migrate_ms(self, memory_mib: int, vms: int = 1) -> int:
        """How long until it goes on in another cluster: saved, sent, loaded there."""
        bits_per_ms = self.network_mbps * _BITS_PER_MS_AT_ONE_MBPS
        sending_ms = _divide_up(memory_mib * _BITS_PER_MIB, bits_per_ms)
        one_vm_ms = self.suspend_ms(memory_mib) + sending_ms + self.resume_ms(memory_mib)
        return self._in_turn(vms) * (one_vm_ms + self.migrate_fixed_ms)

    def _in_turn(self, vms: int) -> int:
        """How many VMs of a lease go one after another (packed: its nodes are full but for one)."""
        return vms if self.storage is Storage.SHARED else min(vms, self.vms_per_node)


def _per_gib(memory_mib: int, ms_per_gib: int) -> int:
    return _divide_up(memory_mib * ms_per_gib, _MIB_PER_GIB)


def _divide_up(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _check_whole(field: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        raise InvalidField(field, value, f"a whole number from {least} to {_MOST}")
