"""What Slurm says of one job and of a partition, whichever version said it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Standing(StrEnum):
    """How a job stands, as far as anybody here has to know.

    COMING     it has its nodes, and they are made ready
    LEAVING    it is done, or was told to go, and its nodes are cleaned up
    SUSPENDED  its processes are stopped, and its CPUs are given away
    """

    WAITING = "waiting"
    COMING = "coming"
    RUNNING = "running"
    SUSPENDED = "suspended"
    LEAVING = "leaving"
    OVER = "over"


TAKES_CPUS = frozenset({Standing.COMING, Standing.RUNNING, Standing.LEAVING})

_STANDINGS: Mapping[str, Standing] = {
    "COMPLETING": Standing.LEAVING,
    "STAGE_OUT": Standing.LEAVING,
    "CONFIGURING": Standing.COMING,
    "POWER_UP_NODE": Standing.COMING,
    "SUSPENDED": Standing.SUSPENDED,
    "RUNNING": Standing.RUNNING,
    "RESIZING": Standing.RUNNING,
    "SIGNALING": Standing.RUNNING,
    "STOPPED": Standing.RUNNING,  # its processes are stopped, but it keeps its CPUs
    "PENDING": Standing.WAITING,
    "REQUEUED": Standing.WAITING,
    "REQUEUE_HOLD": Standing.WAITING,
    "REQUEUE_FED": Standing.WAITING,
    "RESV_DEL_HOLD": Standing.WAITING,
    "SPECIAL_EXIT": Standing.WAITING,
}
"""What a word of Slurm's means; of several, the first in this table decides. No other is of a live job."""

_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})


def standing_of(words: tuple[str, ...]) -> Standing:
    """Say how a job stands of which Slurm says these words."""
    return next((standing for word, standing in _STANDINGS.items() if word in words), Standing.OVER)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are Unix seconds, 0 where there is none yet.

    ``words``           Slurm's words for its state, as ``("RUNNING",)``
    ``user``, ``uid``   whose it is; -1 where that is not told
    ``exit_status``     of its script, None where a signal ended it, or it is not over
    ``cpus_by_node``    what it has, or had: the CPUs of each of its nodes
    ``cpus``            what it asked for in all, of so many nodes (``nodes_wanted``), and its memory
    ``whole_nodes``     whether it shares its nodes with nobody
    ``array_id``        of which array it is a task, 0 if of none
    ``array_task``      which task it is; None where it stands for all that wait, those in ``array_tasks``
    ``array_limit``     how many tasks of its array may run at a time, 0 if any number
    ``priority``        0 where it is held
    ``time_limit_min``  None: none of its own
    ``switched_s``      when it was last suspended or resumed
    ``restarts``        how often it was put back into the queue
    """

    id: int
    words: tuple[str, ...]
    name: str = ""
    comment: str = ""
    user: str = ""
    uid: int = -1
    partitions: tuple[str, ...] = ()
    reason: str = ""
    exit_status: int | None = None
    cpus_by_node: Mapping[str, int] = field(default_factory=dict)
    cpus: int = 1
    nodes_wanted: int = 1
    memory_per_cpu_mib: int = 0
    memory_per_node_mib: int = 0
    whole_nodes: bool = False
    array_id: int = 0
    array_task: int | None = None
    array_tasks: str = ""
    array_limit: int = 0
    priority: int = 1
    time_limit_min: int | None = None
    start_s: int = 0
    end_s: int = 0
    switched_s: int = 0
    restarts: int = 0

    @property
    def standing(self) -> Standing:
        """How it stands."""
        return standing_of(self.words)

    @property
    def is_live(self) -> bool:
        """Whether anything may still become of it."""
        return self.standing is not Standing.OVER

    @property
    def is_held(self) -> bool:
        """Whether it waits for somebody to release it."""
        return self.standing is Standing.WAITING and (self.priority == 0 or self.reason in _HELD)

    @property
    def lost_its_node(self) -> bool:
        """Whether a node of it has failed, and it is not put back into the queue for that."""
        return "NODE_FAIL" in self.words

    def nodes_of(self, vms: int) -> tuple[str, ...]:
        """Say on which node each of so many equal VMs of it is; empty where that does not come out even.

        It does not where Slurm rounds up what a job has on a node, as to whole cores.
        """
        cpus = sum(self.cpus_by_node.values())
        shares = [(node, divmod(there * vms, cpus)) for node, there in self.cpus_by_node.items()]
        if any(rest for _, (_, rest) in shares):
            return ()
        return tuple(node for node, (count, _) in shares for _ in range(count))

    @property
    def ended_by_itself(self) -> bool:
        """Whether its script ran to its end, whatever it returned."""
        return self.exit_status is not None and bool({"COMPLETED", "FAILED"} & set(self.words))


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; ``longest_min`` is the time limit of its jobs, None where there is none."""

    name: str
    longest_min: int | None = None
