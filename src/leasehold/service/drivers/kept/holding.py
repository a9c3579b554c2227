"""What one lease has at a site: what is wanted for its machines, and what was last seen of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from leasehold.service.drivers.endings import fault_of_exit
from leasehold.service.drivers.kept.endings import status_of
from leasehold.service.drivers.protocol import Observation, Order, Phase

HOLDING_ROOM = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESUMING, Phase.RECEIVING})
"""The phases that take room in the plan. Machines that are being saved do not: the planner gives their room
away at that very moment, and whoever comes in is taken on, and started when they have gone."""

OVER = frozenset({Phase.ENDED, Phase.FAILED})
"""The phases after which nothing comes but STOP."""

Key = tuple[int, int]
"""A lease and a birth: names machines for as long as they live."""


class Goal(StrEnum):
    """How machines are wanted."""

    UP = "up"
    SAVED = "saved"
    AWAY = "away"
    """At another site, with their memory."""
    GONE = "gone"


@dataclass(slots=True)
class Holding:
    """The machines of one lease, from when they come to the site until nothing is left of them.

    ``birth``        the incarnation with which they came; they keep it, and their names with it
    ``incarnation``  the present one
    ``other_site``   where they come from, or go to
    ``from_site``    where they have come from, or will, also when they go on; empty where they are made here
    ``begun``        whether something may have been made of them
    ``came_up``      whether all of them ran once, or may have been sent: none is made anew after that
    ``commanded``    whether their command was started
    ``nodes``        on which node each of them was when all were last seen; empty where that is not known
    """

    lease_id: int
    birth: int
    incarnation: int
    vms: int
    memory_mib: int
    command: tuple[str, ...]
    goal: Goal
    phase: Phase
    since_ms: int
    detail: str = ""
    other_site: str = ""
    begun: bool = False
    came_up: bool = False
    commanded: bool = False
    nodes: tuple[str, ...] = ()
    from_site: str = ""

    @classmethod
    def ordered(cls, order: Order, phase: Phase, now_ms: int) -> "Holding":
        """Make what an order asks for."""
        return cls(
            lease_id=order.lease_id,
            birth=order.incarnation,
            incarnation=order.incarnation,
            vms=order.vms,
            memory_mib=order.memory_mib,
            command=tuple(order.command),
            goal=Goal.UP,
            phase=phase,
            since_ms=now_ms,
            other_site=order.other_site,
            from_site=order.other_site,
        )

    @property
    def key(self) -> Key:
        """The name of its machines."""
        return self.lease_id, self.birth

    @property
    def room_vms(self) -> int:
        """How many slots it takes in the plan."""
        return self.vms if self.phase in HOLDING_ROOM else 0

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way out, and nothing can be ordered of it any more."""
        return self.goal in {Goal.AWAY, Goal.GONE}

    def observed(self) -> Observation:
        """Say what can be seen of it."""
        status = status_of(self.detail, self.command) if self.phase is Phase.ENDED else None
        how = (self.detail, status, fault_of_exit(status), self.nodes)
        return Observation(self.lease_id, self.incarnation, self.phase, self.since_ms, *how)

    def to_text(self) -> str:
        """Write it down, so that `from_text` gives the same again."""
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def from_text(cls, text: str) -> "Holding":
        """Read what `to_text` wrote."""
        written = json.loads(text)
        written |= {
            "command": tuple(written["command"]),
            "nodes": tuple(written.get("nodes", ())),
            "from_site": written.get("from_site", _came_from(written)),
            "goal": Goal(written["goal"]),
            "phase": Phase(written["phase"]),
        }
        return cls(**written)


def _came_from(written: Mapping[str, object]) -> str:
    """Where they come from, where an earlier Leasehold has written it down."""
    is_to_come = written["phase"] == Phase.RECEIVING and written["goal"] == Goal.UP
    return str(written["other_site"]) if is_to_come else ""
