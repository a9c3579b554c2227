"""How much of everything? Cores, memory and disk as one vector of whole numbers, compared part by part."""

from dataclasses import dataclass

from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Amounts:
    """Whole cores, MiB of memory, MiB of disk. Raises InvalidField for less than nothing."""

    cores: int = 0
    memory_mib: int = 0
    disk_mib: int = 0

    def __post_init__(self) -> None:
        """Refuse less than nothing."""
        for field, value in (
            ("cores", self.cores),
            ("memory_mib", self.memory_mib),
            ("disk_mib", self.disk_mib),
        ):
            if value < 0:
                raise InvalidField(field, value, "at least 0")

    def holds(self, other: "Amounts") -> bool:
        """Whether there is at least as much of each part."""
        return other.memory_mib <= self.memory_mib and other.cores <= self.cores and other.disk_mib <= self.disk_mib

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.cores + other.cores, self.memory_mib + other.memory_mib, self.disk_mib + other.disk_mib)

    def __sub__(self, other: "Amounts") -> "Amounts":
        """Take away. Raises InvalidField where it is not there: nothing is ever promised twice."""
        return Amounts(self.cores - other.cores, self.memory_mib - other.memory_mib, self.disk_mib - other.disk_mib)


NOTHING = Amounts()
