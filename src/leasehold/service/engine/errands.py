"""What somebody has to do for jobs outside: fetch what commands wrote, build images, look at nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from leasehold.service.engine.imagebook import Build


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch what the command of a lease wrote at a site."""

    lease_id: int
    site: str


@dataclass(slots=True)
class Errands:
    """What is to be done once the step is in the store; ``looks`` are sites to be looked at now."""

    fetches: list[Fetch] = field(default_factory=list)
    builds: list[Build] = field(default_factory=list)
    looks: set[str] = field(default_factory=set)

    @classmethod
    def together(cls, parts: "Iterable[Errands]") -> "Errands":
        """Put the errands of several steps together."""
        whole = cls()
        for part in parts:
            whole.fetches += part.fetches
            whole.builds += part.builds
            whole.looks |= part.looks
        return whole

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.fetches or self.builds or self.looks)
