"""What are the domains of a site called? By their names they are found again, by whoever looks."""

import re
from dataclasses import dataclass

from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.provider import MachineInstance

_NUMBERS = re.compile(r"([0-9]{1,15})-([0-9]{1,15})-([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Name:
    """A domain of ours: machine number ``number`` of those that came with one generation of a lease."""

    site: str
    key: Key
    number: int

    def __str__(self) -> str:
        """Write it as libvirt has it."""
        lease_id, generation = self.key
        return f"leasehold-{self.site}-{lease_id}-{generation}-{self.number}"


def read_name(text: str, site: str) -> Name | None:
    """Read the name of a domain; None where it is not one of this site."""
    prefix = f"leasehold-{site}-"
    found = _NUMBERS.fullmatch(text.removeprefix(prefix)) if text.startswith(prefix) else None
    return Name(site, (int(found[1]), int(found[2])), int(found[3])) if found else None


def names_of(site: str, instance: MachineInstance) -> list[Name]:
    """Name all machines of a instance."""
    return [Name(site, instance.key, number) for number in range(instance.vms)]
