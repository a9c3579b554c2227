"""What does EC2 say of a machine? Its state, and the reason for it, in our words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leasehold.service.drivers.bounds import LATEST_MS, exit_status_in, whole_in
from leasehold.service.drivers.ec2.words import INCARNATION, LEASE
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.provider import MachineState, Seen

_EXIT_STATUS = re.compile(r"^leasehold: exit status ([0-9]{1,3})[ \t\r]*$", re.MULTILINE)
_SHUT_ITSELF_DOWN = "Client.InstanceInitiatedShutdown"
_HIBERNATED = "Client.UserInitiatedHibernate"
_PLAIN = {
    "pending": MachineState.PENDING,
    "running": MachineState.UP,
    "stopping": MachineState.LEAVING,
    "shutting-down": MachineState.LEAVING,
}


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, as EC2 describes it; ``reason`` is the code of why it is so."""

    key: Key
    name: str
    state: str
    reason: str

    @property
    def is_gone(self) -> bool:
        """Whether it is still listed, and nothing of it is there any more."""
        return self.state == "terminated"

    @property
    def is_going(self) -> bool:
        """Whether it will never run again."""
        return self.state in {"shutting-down", "terminated"}

    @property
    def has_ended(self) -> bool:
        """Whether it has shut itself down, as it does when its command has ended."""
        return self.state == "stopped" and self.reason == _SHUT_ITSELF_DOWN

    def seen(self) -> Seen:
        """Say what that means for who wants it up or saved."""
        if self.state in _PLAIN:
            return Seen(_PLAIN[self.state])
        if self.state == "stopped" and self.reason == _HIBERNATED:
            return Seen(MachineState.SAVED)
        return Seen(MachineState.FAILED, f"EC2 says of {self.name}: {self.state}, {self.reason or 'for no reason'}")


def read_instance(described: Mapping[str, Any]) -> Instance | None:
    """Read a description; None where its tags are not those that we give."""
    tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
    lease_id, generation = (whole_in(tags.get(name), 0, LATEST_MS) for name in (LEASE, INCARNATION))
    if lease_id is None or generation is None:
        return None
    reason = str(described.get("StateReason", {}).get("Code", ""))
    return Instance((lease_id, generation), described["InstanceId"], described["State"]["Name"], reason)


def exit_status(console: str) -> int | None:
    """Find what the command of a machine ended with; None where the console does not say."""
    said = _EXIT_STATUS.findall(console)
    return exit_status_in(said[-1]) if said else None
