"""Whatever is ordered, repeated, late or out of order, and wherever the process is killed: what a small model says."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.protocol import Capabilities, Observation, Order, Phase, Verb
from leasehold.service.drivers.reconciler.desired import Desired, DesiredState
from leasehold.service.drivers.reconciler.instances import NEVER, Instances, Key
from leasehold.service.drivers.reconciler.loop import Backoff, Reconciler, ReconcilerSettings
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    Provider,
    Step,
    TransientError,
)
from leasehold.service.drivers.reconciler.store import InstanceStore, from_text, read_neighbour, to_text
from leasehold.testing.driver_rig import order

SLOTS, LEASES = 4, (1, 2, 3)
UP, SAVING, SAVED, ENDED = "up", "saving", "saved", "ended"
PHASES = {UP: Phase.RUNNING, SAVED: Phase.SAVED, ENDED: Phase.ENDED}
MANY_ROUNDS = 40


# --- the model ----------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """What orders should come to, at a site where each is done at once: lease by lease, without keys or machines."""

    here: dict[int, list[Any]] = field(default_factory=dict)
    """Of each lease the incarnation, the state and the number of VMs."""
    gone: dict[int, int] = field(default_factory=dict)

    def takes(self, told: Order) -> bool:
        """Follow an order; returns whether it is taken on."""
        lease, here = told.lease_id, self.here.get(told.lease_id)
        is_late = told.incarnation <= self.gone.get(lease, NEVER)
        if here is not None and not is_late:
            is_repeated = told.verb in {Verb.START, Verb.RESUME, Verb.RECEIVE} and told.incarnation == here[0]
            is_late = told.incarnation < here[0] or is_repeated
        if is_late:  # whoever waits for what was stopped is told that it never comes
            return here is not None or told.verb in {Verb.STOP, Verb.SEND, Verb.SUSPEND}
        if told.verb in {Verb.STOP, Verb.SEND}:
            self.here.pop(lease, None)
            self.gone[lease] = told.incarnation
            return True
        if told.verb in {Verb.START, Verb.RECEIVE}:
            return self._comes_in(told, here)
        if here is None or (told.verb is Verb.SUSPEND and here[0] < told.incarnation):
            return False
        if told.verb is Verb.SUSPEND:
            here[1] = SAVING if here[1] == UP else here[1]
        elif here[1] == ENDED:
            here[0] = told.incarnation
        elif here[1] == SAVED and self._has_room(here[2]):
            here[:2] = told.incarnation, UP
        else:
            return False
        return True

    def _comes_in(self, told: Order, here: list[Any] | None) -> bool:
        if here is not None or not self._has_room(told.vms):
            return False
        self.here[told.lease_id] = [told.incarnation, UP, told.vms]
        return True

    def _has_room(self, vms: int) -> bool:
        used_vms: int = sum(one[2] for one in self.here.values() if one[1] == UP)
        return used_vms + vms <= SLOTS

    def settle(self) -> None:
        """Let what takes time have come about."""
        for one in self.here.values():
            one[1] = SAVED if one[1] == SAVING else one[1]

    def end(self, lease: int) -> None:
        """Let the command of a lease end, where it runs."""
        if lease in self.here and self.here[lease][1] == UP:
            self.here[lease][1] = ENDED


# --- machines that fail, and a process that is killed -------------------------------------------------------------


class Killed(BaseException):
    """The process dies."""


class Cloud(Provider):
    """Machines that outlive the process. ``troubles`` say what goes wrong in the next steps, one for each."""

    capabilities = Capabilities()

    def __init__(self, troubles: Sequence[str]) -> None:
        self.machines: dict[tuple[Key, int], MachineState] = {}
        self.created: list[tuple[Key, int]] = []
        self._troubles = iter(troubles)

    def observe(self, _instances: Sequence[MachineInstance]) -> list[Machine]:
        return [Machine(key, f"{key}.{number}", state) for (key, number), state in self.machines.items()]

    def act(self, step: Step, instance: MachineInstance, _machines: Sequence[Machine]) -> None:
        trouble = next(self._troubles, "")
        for done, number in enumerate(range(instance.vms)):
            if trouble and done == instance.vms - 1:  # so that what was begun may be half done
                raise {"killed": Killed, "busy": TransientError, "broken": OSError}[trouble](trouble)
            self._one(step, (instance.key, number))

    def end(self, lease: int) -> None:
        """Let the machines of a lease shut themselves down, where they run."""
        for (key, number), state in self.machines.items():
            if key[0] == lease and state is MachineState.UP:
                self.machines[key, number] = MachineState.ENDED

    def _one(self, step: Step, name: tuple[Key, int]) -> None:
        if step in {Step.CREATE, Step.AWAIT} and name not in self.machines:
            self.created.append(name)
            self.machines[name] = MachineState.UP
        elif step in {Step.REMOVE, Step.SEND}:
            self.machines.pop(name, None)
        elif step is Step.SAVE and name in self.machines:
            self.machines[name] = MachineState.SAVED
        elif step is Step.RESUME and name in self.machines:
            self.machines[name] = MachineState.UP


class AtOnce(Executor):
    """Does what it is given where it is given it."""

    def submit(self, work: Any, /, *details: Any, **more: Any) -> Any:
        work(*details, **more)


class Process:
    """One life of a reconciler over the same file and the same machines, driven by hand; its clock jumps."""

    def __init__(self, folder: Path, cloud: Cloud) -> None:
        self.folder, self.cloud = folder, cloud
        self.store = InstanceStore(folder, MachineInstance, "machines")
        stored, tombstones = self.store.instances(), self.store.tombstones()
        self.instances = DesiredState(MachineInstance, SLOTS, cloud.capabilities, stored, tombstones)
        self._now_s = 0.0
        self.reconciler = Reconciler(
            self.instances, self.store, cloud, lambda: int(self._now_s), lambda _: None, ReconcilerSettings()
        )
        self.reconciler._pool = AtOnce()  # type: ignore[assignment]
        self.reconciler._backoff = Backoff(lambda: self._now_s)

    def settled(self) -> list[Observation] | None:
        """Let so many rounds pass that whatever is to be done is done; None where the process dies of it."""
        try:
            for _ in range(MANY_ROUNDS):
                self._now_s += 100
                self.reconciler.observe()
            return self.reconciler.observe()
        except Killed:
            return None

    def die(self) -> None:
        """Nothing is written any more, and the file is free again."""
        self.store.close()

    def reopened(self) -> "Process":
        """Die, and live again."""
        self.die()
        return Process(self.folder, self.cloud)


@st.composite
def programs(draw: Any) -> list[tuple[list[Order], int, bool]]:
    """Orders that come at once, some of them copies of earlier ones; a lease that ends after them, if any; a crash."""
    batches: list[tuple[list[Order], int, bool]] = []
    told: list[Order] = []
    for _ in range(draw(st.integers(1, 8))):
        batch: list[Order] = []
        for _ in range(draw(st.integers(0, 3))):
            one = draw(st.sampled_from(told)) if told and draw(st.booleans()) else _order(draw)
            told.append(one)
            batch.append(one)
        batches.append((batch, draw(st.sampled_from((0, 0, *LEASES))), draw(st.booleans())))
    return batches


def _order(draw: Any) -> Order:
    verb = draw(st.sampled_from([*Verb, Verb.START, Verb.SUSPEND, Verb.RESUME]))
    lease_id, incarnation, vms = draw(st.sampled_from(LEASES)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    return order(verb, lease_id, incarnation, vms=vms, other_site="b" if verb in {Verb.SEND, Verb.RECEIVE} else "")


TROUBLES = st.lists(st.sampled_from(["", "", "killed", "busy", "broken"]), max_size=12)


@given(programs(), TROUBLES)
def test_machines_come_to_what_the_model_says_whatever_is_ordered_and_wherever_the_process_dies(
    program: list[tuple[list[Order], int, bool]], troubles: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        model, cloud = Model(), Cloud(troubles)
        process = Process(Path(folder), cloud)
        for batch, ends, crashes in program:
            for one in batch:
                assert (one.id in process.reconciler.carry_out([one])) is not model.takes(one)
            for ended in (0, ends):
                cloud.end(ended)
                model.end(ended)
                if crashes:
                    process = process.reopened()
                while (seen := process.settled()) is None:
                    process = process.reopened()
                model.settle()
                as_the_model_says(model, process, seen)
        process.die()


def as_the_model_says(model: Model, process: Process, seen: list[Observation]) -> None:
    expected = {lease: (incarnation, PHASES[state]) for lease, (incarnation, state, _) in model.here.items()}
    assert {one.lease_id: (one.incarnation, one.phase) for one in seen} == expected
    there = process.cloud.machines
    wanted = set()
    for lease, (_, state, vms) in model.here.items():
        current = process.instances.current(lease)
        assert current is not None
        names = {(current.key, number) for number in range(vms)}
        wanted |= names
        assert names <= there.keys() or (state == SAVED and current.never_existed)
        assert len({there[name] for name in names & there.keys()}) <= 1
    assert there.keys() <= wanted
    assert len(process.cloud.created) == len(set(process.cloud.created)), "nothing is created twice"
    assert process.instances.used_vms == sum(one.room_vms for one in process.instances.all() if not one.is_leaving)
    for lease in LEASES:
        stored = read_neighbour(process.folder, MachineInstance, lease)
        assert stored is not None
        assert stored.instances == [one for one in process.instances.all() if one.lease_id == lease]
        assert stored.tombstone == process.instances.tombstone(lease) == model.gone.get(lease, NEVER)


def test_an_instance_is_stored_as_it_is(tmp_path: Path) -> None:
    told = order(Verb.START, 7, 3, vms=2, command=("sleep", 1))
    one = MachineInstance.ordered(told, Phase.STARTING, 5, desired=Desired.SAVED, nodes=("n1", "ü"), exit_status=3)
    assert from_text(MachineInstance, to_text(MachineInstance, one)) == one
    assert read_neighbour(tmp_path, MachineInstance) is None
    store = InstanceStore(tmp_path, MachineInstance, "machines")
    instances = Instances([one])
    instances.touch(one)
    instances.bury(4, 9)
    changes = instances.take_changes()
    store.write(changes)
    store.publish({"peer_uri": "there"})
    neighbour = read_neighbour(tmp_path, MachineInstance, 4)
    assert neighbour is not None
    assert (neighbour.facts, neighbour.instances, neighbour.tombstone) == ({"peer_uri": "there"}, [], 9)
    assert (store.instances(), store.tombstones()) == ([one], {4: 9})
    store.close()
