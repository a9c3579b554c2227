"""Which jobs are taken for whose: by hand, with a cluster of which only the queue is there."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from pwd import getpwnam
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.protocol import Order, Phase, PlacementConstraints, Verb
from leasehold.service.drivers.reconciler.desired import Desired, DesiredState
from leasehold.service.drivers.reconciler.store import InstanceStore
from leasehold.service.drivers.slurm import users as users_module
from leasehold.service.drivers.slurm.cluster import Job, Node
from leasehold.service.drivers.slurm.commands import Slurm, SlurmUnavailable, Step
from leasehold.service.drivers.slurm.instance import JobInstance, Tag
from leasehold.service.drivers.slurm.job_directory import JobDirectories
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.reconciler import NO_ROOM, JobReconciler
from leasehold.service.drivers.slurm.users import JobUsers
from leasehold.testing.driver_rig import order

NOW_MS = 1_060_000
OPTIONS = SlurmOptions(users={"atlas": "daemon", "cms": "nobody"})
ATLAS, CMS = (getpwnam(OPTIONS.users[group]).pw_uid for group in ("atlas", "cms"))


class Queue(Slurm):
    """A cluster that has these jobs, and takes no more than is said here."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)
        self.queue: list[Job] = []
        self.done: list[tuple[Step, int]] = []
        self.placed: list[tuple[int, int, dict[str, str]]] = []
        self.silent = False
        self.complaint = ""

    def jobs(self) -> list[Job]:
        return self.queue

    def nodes(self) -> dict[str, Node]:
        return {"n1": Node("n1", 4, 2_000)}

    def memory_is_consumable(self) -> bool:
        return False

    def submit(self, *_: Any, **__: Any) -> int:
        if self.silent:
            raise SlurmUnavailable("sbatch took longer than 1 s")
        return 9

    @property
    def cancelled(self) -> list[int]:
        return [job_id for step, job_id in self.done if step is Step.CANCEL]

    def do(self, step: Step, job_id: int) -> str:
        self.done.append((step, job_id))
        return ""

    def place(self, job_id: int, cpus: int, given: Mapping[str, str]) -> str:
        self.placed.append((job_id, cpus, dict(given)))
        return self.complaint


@dataclass
class House:
    """A site on such a cluster."""

    folder: Path
    slurm: Queue = field(default_factory=Queue)

    def __post_init__(self) -> None:
        self.store = InstanceStore(self.folder, JobInstance, "Slurm jobs")
        directories = JobDirectories(self.folder / "jobs")
        clock = lambda: NOW_MS  # noqa: E731 - time stands still
        self.reconciler = JobReconciler(self.slurm, self.store, directories, OPTIONS, 4, clock)

    @property
    def here(self) -> dict[int, JobInstance]:
        """The instances by lease."""
        return {one.lease_id: one for one in self.reconciler.instances.all()}

    def submitted(self, account: str = "atlas") -> JobInstance:
        """A lease of which it is not known whether Slurm has its job: we were killed just then."""
        user = getpwnam(OPTIONS.users[account])
        whose = {
            "user": user.pw_name,
            "uid": user.pw_uid,
            "gid": user.pw_gid,
            "owner": self.store.identity,
            "secret": "5ec4e7",
        }
        one = JobInstance.ordered(start(account), Phase.STARTING, NOW_MS, cores=1, **whose)
        self.reconciler.instances.add(one)
        return one


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.store.close()


def start(account: str = "atlas") -> Order:
    return replace(order(Verb.START, 7), account=account)


def job(tag: Tag, number: int = 5, uid: int = ATLAS, **more: Any) -> Job:
    return Job(number, ("RUNNING",), comment=tag.comment, uid=uid, **more)


class TestAJobThatWasSubmittedJustBeforeACrash:
    def test_is_claimed_by_its_lease(self, house: House) -> None:
        one = house.submitted()
        house.slurm.queue = [job(one.tag)]
        house.reconciler.observe()
        assert (one.job_id, house.slurm.cancelled) == (5, [])

    def test_is_not_what_another_tenant_has_put_the_same_tag_on(self, house: House) -> None:
        """Anybody can read it in the queue, while the true job waits there."""
        one = house.submitted()
        tag = one.tag
        house.slurm.queue = [job(tag, 4, CMS), job(tag, 5)]
        house.reconciler.observe()
        assert (one.job_id, house.slurm.cancelled) == (5, [4])

    def test_is_none_of_another_secret(self, house: House) -> None:
        one = house.submitted()
        house.slurm.queue = [job(replace(one.tag, secret=one.secret[1:]))]
        house.reconciler.observe()
        assert (one.job_id, house.slurm.cancelled) == (None, [5])

    @given(
        st.sampled_from([ATLAS, CMS]),
        st.sampled_from(["5ec4e7", "guessed"]),
        st.sampled_from([1, 2]),
        st.sampled_from([7, 8]),
    )
    def test_has_its_user_and_the_whole_of_its_tag(
        self, tmp_path_factory: pytest.TempPathFactory, uid: int, secret: str, generation: int, lease_id: int
    ) -> None:
        house = House(tmp_path_factory.mktemp("house"))
        one = house.submitted()
        house.slurm.queue = [job(replace(one.tag, lease_id=lease_id, generation=generation, secret=secret), uid=uid)]
        house.reconciler.observe()
        is_its_own = (uid, secret, generation, lease_id) == (ATLAS, "5ec4e7", 1, 7)
        assert (one.job_id == 5) is is_its_own
        assert (house.slurm.cancelled == [5]) is not is_its_own
        house.store.close()


class TestAJobWhoseCpusOthersHave:
    """Slurm itself would let both run."""

    def resumed(self, house: House, *words: str, **more: Any) -> JobInstance:
        """A lease that was suspended, and is to go on; another job runs on its node."""
        one = house.submitted()
        one.incarnation, one.job_id, one.phase = 2, 5, Phase.RESUMING
        house.slurm.queue = [
            Job(5, words, comment=one.tag.comment, uid=ATLAS, cpus_by_node={"n1": 2}, **more),
            Job(6, ("RUNNING",), uid=0, cpus_by_node={"n1": 3}),
        ]
        return one

    def test_waits_and_says_so_and_is_written_once(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        one = self.resumed(house, "SUSPENDED")
        written: list[object] = []
        monkeypatch.setattr(house.store, "write", written.append)
        for _ in range(3):
            house.reconciler.observe()
            assert (one.phase, one.detail, house.slurm.done) == (Phase.RESUMING, NO_ROOM, [])
        assert len(written) == 1
        house.slurm.queue.pop()
        house.reconciler.observe()
        assert house.slurm.done == [(Step.RESUME, 5)]

    def test_is_suspended_again_if_they_came_as_it_was_resumed(self, house: House) -> None:
        one = self.resumed(house, "RUNNING")
        house.reconciler.observe()
        assert (one.phase, one.detail, house.slurm.done) == (Phase.RESUMING, NO_ROOM, [(Step.SUSPEND, 5)])

    def test_takes_them_back_from_one_that_leaves_in_the_same_look(self, house: House) -> None:
        one = self.resumed(house, "SUSPENDED")
        other = replace(one, lease_id=8, job_id=6, incarnation=1, desired=Desired.SAVED, phase=Phase.SAVING)
        house.reconciler.instances.add(other)
        house.slurm.queue[1] = replace(house.slurm.queue[1], uid=ATLAS, comment=other.tag.comment)
        house.reconciler.observe()
        assert house.slurm.done == [(Step.SUSPEND, 6), (Step.RESUME, 5)]


def test_what_slurm_may_not_have_is_not_reported(house: House) -> None:
    one = house.submitted()
    assert house.reconciler.observe() == []
    house.slurm.queue = [job(one.tag)]
    assert [seen.phase for seen in house.reconciler.observe()] == [Phase.RUNNING]


class TestAJobThatComesBackToOtherNodes:
    """It was requeued to give way, and the plan of the site has put it elsewhere since."""

    MOVED = PlacementConstraints(
        placed=(("n2", 2, (0, 1)), ("n3", 1, (0,))), cores=2, gpu_model="a100", gpu_milli=1_000
    )

    def resumed(self, house: House, constraints: PlacementConstraints) -> JobInstance:
        one = house.submitted()
        one.job_id, one.on_nodes, one.per_node, one.vms, one.cores = 5, ("n1",), 3, 3, 2
        one.desired, one.phase = Desired.SAVED, Phase.SAVED
        house.slurm.queue = [Job(5, ("PENDING",), comment=one.tag.comment, uid=ATLAS, priority=0, restarts=1)]
        back = replace(order(Verb.RESUME, 7, incarnation=one.incarnation + 1), constraints=constraints)
        assert house.reconciler.carry_out([back]) == {}
        return one

    def test_it_asks_for_these_and_is_released_then(self, house: House) -> None:
        one = self.resumed(house, self.MOVED)
        assert (one.on_nodes, one.per_node, one.gpus) == (("n2", "n3"), 0, "a100:1")
        asked = {"nodelist": "n2,n3", "nodes": "2-2", "mincpus": "2", "mem-per-cpu": ""}
        assert house.slurm.placed == [(5, 6, asked)]
        assert house.slurm.done == [(Step.RELEASE, 5)]

    def test_it_is_not_released_to_the_nodes_that_it_had(self, house: House) -> None:
        house.slurm.complaint = "slurm_update error: Invalid node name specified"
        one = self.resumed(house, self.MOVED)
        assert house.slurm.done == []
        assert one.detail == "Slurm, asked to release: slurm_update error: Invalid node name specified"
        house.slurm.complaint = ""
        house.reconciler.observe()
        assert house.slurm.done == [(Step.RELEASE, 5)]

    def test_where_nothing_is_planned_by_nodes_it_comes_back_to_its_own(self, house: House) -> None:
        one = self.resumed(house, PlacementConstraints())
        assert (one.on_nodes, one.per_node) == (("n1",), 3)
        assert house.slurm.placed == [(5, 6, {"nodelist": "n1", "nodes": "1-1", "mincpus": "6", "mem": "192M"})]


class TestAUserWhoIsNotKnownAnyMore:
    def test_is_told_and_keeps_no_other_order_waiting(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        def nobody(name: str) -> None:
            raise KeyError(f"getpwnam(): name not found: {name!r}")

        monkeypatch.setattr(users_module, "getpwnam", nobody)
        problems = house.reconciler.carry_out([start(), order(Verb.STOP, 8)])
        assert problems.keys() == {"7.1.start"}
        assert problems["7.1.start"].text == "the Unix user daemon of its job is not known any more"
        assert problems["7.1.start"].again
        assert (house.here, house.store.instances()) == ({}, [])

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder that is somebody else's")
    def test_is_another_thing_than_a_cluster_that_is_silent(self, house: House) -> None:
        """It may have the job, and so what is known of it is kept."""
        house.submitted()
        house.slurm.silent = True
        assert "sbatch took longer" in house.reconciler.carry_out([start()])["7.1.start"].text
        assert house.here.keys() == {7}


def test_a_start_that_is_repeated_is_refused_where_its_consumer_has_no_user_any_more(house: House) -> None:
    house.submitted()
    house.reconciler._users = JobUsers(replace(OPTIONS, users={"cms": "nobody"}))
    refused = house.reconciler.carry_out([start()])["7.1.start"]
    assert (refused.again, house.here[7].job_id) == (False, None)


class Counted(DesiredState[JobInstance]):
    """Instances that count how often all of them are gone through."""

    times = 0

    def all(self) -> list[JobInstance]:
        self.times += 1
        return super().all()


def test_native_jobs_are_told_from_guests_without_going_through_all_leases_for_each(house: House) -> None:
    one = replace(house.submitted(), job_id=1)
    house.reconciler.instances = counted = Counted(JobInstance, 4, house.reconciler.capabilities, [one])
    native = [Job(number, ("RUNNING",), cpus_by_node={"n1": 1}, uid=0) for number in range(2, 40)]
    guest = job(one.tag, 1, cpus_by_node={"n1": 1})
    renamed = Job(1, ("RUNNING",), uid=ATLAS, cpus_by_node={"n1": 1})
    for queue in ([guest, *native], [renamed, *native]):
        house.slurm.queue, counted.times = queue, 0
        assert house.reconciler.native_jobs() == native
        assert counted.times <= 2
