"""What is to be done for jobs outside of the engine: fetch what commands wrote, build images, look at nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from leasehold.matching.software import Installed


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch what the command of a lease wrote at a site; and the files that it left, which are its consumer's."""

    lease_id: int
    site: str
    consumer: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Build:
    """An image to be built at a site, and under which key that is asked for."""

    key: str
    site: str
    packages: Installed


@dataclass(slots=True)
class BackgroundTasks:
    """What is to be done once the step is in the store; ``looks`` are sites to be looked at now."""

    fetches: list[Fetch] = field(default_factory=list)
    builds: list[Build] = field(default_factory=list)
    looks: set[str] = field(default_factory=set)

    @classmethod
    def together(cls, parts: "Iterable[BackgroundTasks]") -> "BackgroundTasks":
        """Put the tasks of several steps together."""
        whole = cls()
        for part in parts:
            whole.fetches += part.fetches
            whole.builds += part.builds
            whole.looks |= part.looks
        return whole

    def take(self) -> "BackgroundTasks":
        """Take out what is to be done now."""
        taken = BackgroundTasks(self.fetches, self.builds, self.looks)
        self.fetches, self.builds, self.looks = [], [], set()
        return taken

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.fetches or self.builds or self.looks)
