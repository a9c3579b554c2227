"""What is to be done for jobs outside of the engine: fetch what commands wrote, build images, look at nodes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from leasehold.matching.software import Installed
from leasehold.service.commands import Submit
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.staging import JobFiles
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store.rows import OutputFile


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch what the command of a lease wrote at a site; and the files that it left, which are its consumer's."""

    lease_id: int
    site: str
    consumer: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """Read what the command of a lease has written so far at its site, for the gateway that has sent it."""

    lease_id: int
    site: str


@dataclass(frozen=True, slots=True)
class Send:
    """Send the files that the command of a lease has left at a site here to the gateway that has sent the lease."""

    lease_id: int
    site: str
    files: JobFiles


@dataclass(frozen=True, slots=True)
class PlanFor:
    """Say what would become of a request here to the gateway that asks so with this number, and waits so long."""

    number: int
    gateway: str
    submit: Submit
    within_ms: int


@dataclass(frozen=True, slots=True)
class OutputHeard:
    """What the manager of a site has read of the command of a lease; with a ``problem`` it could not be read."""

    lease_id: int
    output: Output
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FilesHeard:
    """What the manager of a site says that it has sent; with a ``problem`` it could not send everything."""

    lease_id: int
    files: tuple[OutputFile, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PlanHeard:
    """What a site or peer says would become of a request there; with a ``problem`` it can say nothing."""

    site: str
    number: int
    planned: Planned
    problem: str = ""


Heard = OutputHeard | FilesHeard | PlanHeard


@dataclass(frozen=True, slots=True)
class Build:
    """An image to be built at a site, and under which key that is asked for."""

    key: str
    site: str
    packages: Installed


@dataclass(slots=True)
class BackgroundTasks:
    """What is to be done once the step is in the store; ``looks`` are sites to be looked at now.

    ``reads`` and ``sends`` are what gateways want of the commands of their leases here, and ``plans`` what they want to
    know of requests; ``heard``: what this one was told.
    """

    fetches: list[Fetch] = field(default_factory=list)
    builds: list[Build] = field(default_factory=list)
    looks: set[str] = field(default_factory=set)
    reads: list[Read] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    plans: list[PlanFor] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    @classmethod
    def together(cls, parts: "Iterable[BackgroundTasks]") -> "BackgroundTasks":
        """Put the tasks of several steps together."""
        whole = cls()
        for part in parts:
            whole.fetches += part.fetches
            whole.builds += part.builds
            whole.looks |= part.looks
            whole.reads += part.reads
            whole.sends += part.sends
            whole.plans += part.plans
            whole.heard += part.heard
        return whole

    def take(self) -> "BackgroundTasks":
        """Take out what is to be done now."""
        taken = BackgroundTasks(**{one.name: getattr(self, one.name) for one in fields(self)})
        for one in fields(self):
            setattr(self, one.name, type(getattr(self, one.name))())
        return taken

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return any(getattr(self, one.name) for one in fields(self))
