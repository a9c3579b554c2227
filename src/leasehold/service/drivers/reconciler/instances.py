"""The instances of a site: what its driver keeps of each lease, and of those that are gone.

A lease has at most one *current* instance at a site, and any number of older ones that are on their way out. What
was stopped or sent away leaves a *tombstone*, so that a late copy of its START does nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from leasehold.service.drivers.protocol import Observation, Order, Phase, Verb
from leasehold.service.drivers.staging import NO_FILES, JobFiles

TAKES_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
"""The phases that take slots. An instance that is being saved does not: the planner gives its room away at that very
moment, and the next one waits until the machines have gone."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})
"""The phases that only a STOP or SEND ends."""

BRINGS_UP = frozenset({Verb.START, Verb.RESUME, Verb.RECEIVE})
NEVER = -1
"""The tombstone of a lease that never left."""

MAX_TOMBSTONES = 100_000
"""How many are kept: a late order is a copy from an outbox, and does not come that late."""

Key = tuple[int, int]
"""A lease and a generation: names an instance, and its machines, for as long as they live."""


@dataclass(slots=True, kw_only=True)
class Instance:
    """The machines of one lease at a site; a driver adds fields of its own in a subclass.

    ``generation``   the incarnation with which it came; it keeps it, and its machines their names
    ``incarnation``  the present one
    ``exit_status``  of its command, where it has ended and that is known
    ``fault``        the `leasehold.jobs.job.Fault` for which it failed
    ``nodes``        on which node each machine is; empty where that is not known
    ``checkpointed_ms``  when its guest last said in its machines that it has saved its work; 0: never
    ``files``        what its command reads and leaves behind
    ``image``        the name of what its machines boot from, or its command runs in; empty: the site's default
    ``ssh_key``      the public key by which its user logs in; empty: nobody does
    """

    lease_id: int
    generation: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...]
    phase: Phase
    since_ms: int
    detail: str = ""
    exit_status: int | None = None
    fault: str = ""
    nodes: tuple[str, ...] = ()
    checkpointed_ms: int = 0
    files: JobFiles = NO_FILES
    image: str = ""
    ssh_key: str = ""

    @classmethod
    def ordered(cls, order: Order, phase: Phase, now_ms: int, **more: Any) -> Self:  # noqa: ANN401 - fields
        """Make a new instance as an order asks for it; ``more`` are other fields, also in place of these."""
        fields: dict[str, Any] = {
            "lease_id": order.lease_id,
            "generation": order.incarnation,
            "incarnation": order.incarnation,
            "vms": order.vms,
            "memory_mib": order.memory_mib,
            "command": tuple(order.command),
            "files": order.files,
            "image": order.constraints.image,
            "ssh_key": order.ssh_key,
        }
        return cls(**fields | more, phase=phase, since_ms=now_ms)

    @property
    def key(self) -> Key:
        """Its name."""
        return self.lease_id, self.generation

    @property
    def is_over(self) -> bool:
        """Whether only a STOP or SEND ends this phase."""
        return self.phase in OVER

    @property
    def room_vms(self) -> int:
        """How many slots it takes."""
        return self.vms if self.phase in TAKES_ROOM else 0

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way out and not current: no order changes that."""
        return False

    @property
    def is_observed(self) -> bool:
        """Whether it is reported: one on its way to another site is reported there."""
        return True

    def observed(self) -> Observation:
        """Return what can be seen of it."""
        how = (self.detail, self.exit_status, self.fault, self.nodes, self.checkpointed_ms)
        return Observation(self.lease_id, self.incarnation, self.phase, self.since_ms, *how)


I = TypeVar("I", bound=Instance)  # noqa: E741 - an instance


@dataclass(frozen=True, slots=True)
class Changes(Generic[I]):
    """What has to be written in one transaction: instances (None: deleted), and tombstones by lease."""

    instances: dict[Key, I | None] = field(default_factory=dict)
    tombstones: dict[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.instances or self.tombstones)


class Instances(Generic[I]):
    """All instances of a site in memory, with what has to be written and reported of them. It judges no order."""

    def __init__(self, instances: Iterable[I] = (), tombstones: Mapping[int, int] | None = None) -> None:
        self._all = {one.key: one for one in instances}
        self._current = {one.lease_id: one for one in self._all.values() if not one.is_leaving}
        self._tombstones = dict(tombstones or {})
        self._changed: set[Key] = set()
        self._buried: dict[int, int] = {}
        self._news: list[Observation] = []
        self.used_vms = 0
        for one in self._current.values():
            self._count(one, one.room_vms)

    # what is here

    def all(self) -> list[I]:
        """List every instance, those on their way out too."""
        return list(self._all.values())

    def find(self, key: Key) -> I | None:
        """Find an instance by its name."""
        return self._all.get(key)

    def current(self, lease_id: int) -> I | None:
        """Find the instance of a lease that is not on its way out."""
        return self._current.get(lease_id)

    def tombstone(self, lease_id: int) -> int:
        """Return the last incarnation of a lease that was stopped or sent away, or `NEVER`."""
        return self._tombstones.get(lease_id, NEVER)

    def observe(self) -> list[Observation]:
        """Report everything that is here, by lease."""
        seen = {one.lease_id: one for one in (*self._all.values(), *self._current.values()) if one.is_observed}
        return [seen[lease_id].observed() for lease_id in sorted(seen)]

    # how it changes

    def add(self, instance: I) -> None:
        """Take an instance in; it is current unless it is on its way out. That is not news yet."""
        self._all[instance.key] = instance
        self.touch(instance)
        if not instance.is_leaving:
            self._current[instance.lease_id] = instance
            self._count(instance, instance.room_vms)

    def become(
        self,
        instance: I,
        phase: Phase,
        since_ms: int,
        detail: str = "",
        *,
        exit_status: int | None = None,
        fault: str = "",
    ) -> None:
        """Move an instance to another phase and report it; the same phase again keeps its time."""
        is_current, before_vms = self._is_current(instance), instance.room_vms
        if is_current:
            self._count(instance, -before_vms)
        if phase is not instance.phase:
            instance.phase, instance.since_ms = phase, since_ms
        instance.detail, instance.exit_status, instance.fault = detail, exit_status, fault
        self.touch(instance)
        if is_current:
            self._count(instance, instance.room_vms)
            self.report(instance)

    def end_again(self, instance: I, incarnation: int, now_ms: int) -> None:
        """Let what ended before it could be saved have ended once more: there is nothing to resume."""
        instance.incarnation, instance.since_ms = incarnation, now_ms
        self.touch(instance)
        self.report(instance)

    def report(self, instance: I) -> None:
        """Note that what can be seen of an instance is news."""
        self._news.append(instance.observed())

    def drop_news(self, lease_id: int) -> None:
        """Report nothing of a lease that was not reported yet."""
        self._news = [one for one in self._news if one.lease_id != lease_id]

    def touch(self, instance: I) -> None:
        """Note that an instance has to be written."""
        self._changed.add(instance.key)

    def bury(self, lease_id: int, incarnation: int) -> I | None:
        """Leave a tombstone: this incarnation and all before it are not wanted here again.

        Returns the instance that was current, and is now on its way out.
        """
        last = max(incarnation, self._tombstones.pop(lease_id, NEVER))
        self._tombstones[lease_id] = self._buried[lease_id] = last
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]
        instance = self._current.pop(lease_id, None)
        if instance is not None:
            self._count(instance, -instance.room_vms)
            self.touch(instance)
        return instance

    def drop(self, instance: I) -> None:
        """Forget an instance of which nothing is left."""
        if self._is_current(instance):
            del self._current[instance.lease_id]
            self._count(instance, -instance.room_vms)
        del self._all[instance.key]
        self.touch(instance)

    def room_changed(self, instance: I, vms: int) -> None:
        """Hook: an instance has taken slots, or given them back where ``vms`` is negative."""

    def _is_current(self, instance: I) -> bool:
        return self._current.get(instance.lease_id) is instance

    def _count(self, instance: I, vms: int) -> None:
        if vms:
            self.used_vms += vms
            self.room_changed(instance, vms)

    # what is to be reported and written

    def take_news(self) -> list[Observation]:
        """Take what has changed since the last call, in that order."""
        news, self._news = self._news, []
        return news

    def flush(self, write: Callable[[Changes[I]], object]) -> Changes[I]:
        """Write what has changed since the last call, and return it; what cannot be written is kept."""
        changes = self.take_changes()
        if changes:
            try:
                write(changes)
            except BaseException:
                self.give_back(changes)
                raise
        return changes

    def take_changes(self) -> Changes[I]:
        """Take what has to be written since the last call."""
        changed, self._changed = self._changed, set()
        buried, self._buried = self._buried, {}
        return Changes({key: self._all.get(key) for key in changed}, buried)

    def give_back(self, changes: Changes[I]) -> None:
        """Keep what was taken to be written and could not be."""
        self._changed.update(changes.instances)
        self._buried = changes.tombstones | self._buried
