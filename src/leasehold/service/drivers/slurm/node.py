"""What Slurm says of one node."""

from dataclasses import dataclass

from leasehold.jobs.job import Fault

_SILENT = "NOT_RESPONDING"
_REBOOTED = "unexpectedly rebooted"
_CLOSED = {
    "DRAIN": "is drained",
    "DRAINED": "is drained",
    "DRAINING": "is drained",
    "FAIL": "is marked as failing",
    "FAILING": "is marked as failing",
    "MAINT": "is under maintenance",
    "MAINTENANCE": "is under maintenance",
    "RESERVED": "is reserved",
    "INVALID_REG": "is not what Slurm's configuration says",
    "BLOCKED": "is blocked by a job that has other nodes to itself",
    "REBOOT_ISSUED": "is about to be restarted",
    "REBOOT_REQUESTED": "is about to be restarted",
    "POWERED_DOWN": "is powered down",
    "POWERING_DOWN": "is powered down",
    "POWER_DOWN": "is powered down",
    "FUTURE": "is not there yet",
    "UNKNOWN": "has not told its state yet",
}
"""Words of a node on which nothing new starts, while what runs there goes on."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: how many CPUs and how much memory it has in all, and the partitions that it is in.

    ``takes_jobs``       whether Slurm starts anything on it now
    ``words``            Slurm's words for its state, as ``("IDLE", "DRAIN")``, and ``reason`` why, if so
    ``free_cpus``        which no job has
    ``given_memory_mib`` what Slurm has given to jobs, where it gives memory out
    ``disk_mib``         for temporary files, 0 where nobody told Slurm
    ``booted_ms``        when it was started (Unix ms), 0 where nobody knows
    ``address``          where its slurmd listens, with ``port``
    """

    name: str
    cpus: int
    memory_mib: int
    partitions: frozenset[str] = frozenset()
    takes_jobs: bool = True
    words: tuple[str, ...] = ()
    reason: str = ""
    free_cpus: int = 0
    given_memory_mib: int = 0
    disk_mib: int = 0
    features: tuple[str, ...] = ()
    booted_ms: int = 0
    address: str = ""
    port: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether its slurmd does not answer the controller."""
        return _SILENT in self.words


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why nothing can run on a node now, and which fault that is for what ran there; None: it goes on."""

    text: str
    fault: Fault | None = None


def trouble_of(node: Node, *, refuses: bool = False) -> Trouble | None:
    """Say what is wrong with a node, as far as Slurm and its own port tell; None where nothing is.

    ``refuses`` says that somebody is at home there who takes no connections for slurmd: then it is neither
    the network nor the node, but slurmd that is gone.
    """
    why = f": {node.reason}" if node.reason else ""
    if "DOWN" in node.words or "ERROR" in node.words:
        return Trouble(f"Slurm: the node is down{why}", _fault_of_down(node, refuses=refuses))
    if node.is_silent:
        fault = Fault.SERVICE_STOPPED if refuses else Fault.NETWORK_FAILED
        return Trouble(f"Slurm: the node does not answer{why}", fault)
    says = next((_CLOSED[word] for word in node.words if word in _CLOSED), None)
    return None if says is None else Trouble(f"Slurm: the node {says}{why}")


def _fault_of_down(node: Node, *, refuses: bool) -> Fault:
    """Slurm has given its jobs up; a node that is only told to be down still stands there."""
    if _REBOOTED in node.reason:
        return Fault.NODE_DIED
    return Fault.NODE_DIED if node.is_silent and not refuses else Fault.SERVICE_STOPPED
