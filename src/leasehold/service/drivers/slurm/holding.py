"""What one lease has at a Slurm site: what is wanted for its job, and what was last seen of it."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum

from leasehold.jobs.job import Fault
from leasehold.service.drivers.endings import fault_of_exit
from leasehold.service.drivers.protocol import Observation, Order, Phase
from leasehold.service.drivers.slurm.snapshot import Tag
from leasehold.service.drivers.slurm.users import JobUser

HOLDING_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING})
"""The phases that take room in the plan. Jobs that are being suspended do not: the planner gives their room
away at that very moment, and Slurm lets those who come in wait until it is free."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})
"""The phases after which nothing comes but STOP."""


class Wanted(StrEnum):
    """How a job is wanted."""

    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(slots=True)
class Holding:
    """The job of one lease, from the order to start it until nothing is left of it.

    ``birth``     the incarnation that was started; the job carries it, whatever becomes of it later
    ``job_id``    None until Slurm is known to have it: then it is looked for by what it carries
    ``restarts``  how often Slurm had put it back into the queue when it was last looked at
    ``nodes``     on which it is, one VM on each, where its order named them; ``cores`` of each of its VMs
    ``seen_on``   on which node each VM was when its job was last seen; empty where that is not known
    ``user``      as whom its job runs, with ``uid`` and ``gid``; nobody else's job is ever taken for it
    ``secret``    what its job carries and nobody could know before it was submitted
    """

    lease_id: int
    birth: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...]
    wanted: Wanted
    phase: Phase
    since_ms: int
    detail: str = ""
    job_id: int | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    cores: int = 0
    user: str = ""
    uid: int = 0
    gid: int = 0
    secret: str = ""
    exit_status: int | None = None
    fault: str = ""
    seen_on: tuple[str, ...] = ()

    @classmethod
    def ordered(cls, order: Order, now_ms: int, user: JobUser, secret: str) -> "Holding":
        """Make what an order asks for; Slurm knows nothing of it yet."""
        return cls(
            order.lease_id,
            order.incarnation,
            order.incarnation,
            order.vms,
            order.memory_mib,
            tuple(order.command),
            Wanted.RUNNING,
            Phase.STARTING,
            now_ms,
            nodes=order.on.nodes,
            cores=order.on.cores,
            user=user.name,
            uid=user.uid,
            gid=user.gid,
            secret=secret,
        )

    @property
    def room_vms(self) -> int:
        """How many slots it takes in the plan."""
        return self.vms if self.phase in HOLDING_ROOM and self.wanted is not Wanted.GONE else 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more becomes of it by itself."""
        return self.phase in OVER

    def tag(self, owner: str) -> Tag:
        """What its job carries."""
        return Tag(owner, self.lease_id, self.birth, self.secret)

    def become(self, phase: Phase, since_ms: int, detail: str = "") -> None:
        """Move it to another phase, never back in time; in the same one it stays since when it was."""
        if phase is not self.phase:
            self.since_ms = max(since_ms, self.since_ms)
        self.phase, self.detail = phase, detail

    def end(self, status: int, at_ms: int) -> None:
        """Let its command have ended by itself."""
        self.become(Phase.ENDED, at_ms, f"exit status {status}" if status else "")
        self.exit_status, self.fault = status, fault_of_exit(status)

    def fail(self, fault: Fault, at_ms: int, detail: str) -> None:
        """Let its job be lost."""
        self.become(Phase.FAILED, at_ms, detail)
        self.fault = fault.value

    def observed(self) -> Observation:
        """Say what can be seen of it."""
        how = (self.detail, self.exit_status, self.fault, self.seen_on)
        return Observation(self.lease_id, self.incarnation, self.phase, self.since_ms, *how)

    def to_text(self) -> str:
        """Write it down, so that `from_text` gives the same again."""
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def from_text(cls, text: str) -> "Holding":
        """Read what `to_text` wrote."""
        values = json.loads(text)
        values |= {name: tuple(values.get(name, ())) for name in ("command", "nodes", "seen_on")}
        values["wanted"], values["phase"] = Wanted(values["wanted"]), Phase(values["phase"])
        return cls(**values)
