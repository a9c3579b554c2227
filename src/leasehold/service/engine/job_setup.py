"""What an engine is told about jobs before it begins."""

from dataclasses import dataclass, field

from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings
from leasehold.matching.nodes import Network
from leasehold.service.assignment_solver import best_solver


@dataclass(frozen=True, slots=True)
class JobSetup:
    """How jobs are served.

    ``margin``       how many times its estimate a job may take before its lease is over
    ``output_kib``   so much is kept of what a command writes
    ``outputs_mib``  and of what all commands of one consumer wrote, the newest; 0: everything
    ``image_sites``  the sites whose machines boot from images
    ``gone_after_ms``  for so long a node is waited for that its site does not list any more
    """

    settings: JobSettings = field(default_factory=JobSettings)
    network: Network = field(default_factory=Network)
    margin: float = 2.0
    output_kib: int = 1024
    outputs_mib: int = 0
    image_sites: frozenset[str] = frozenset()
    gone_after_ms: int = 3_600_000

    def desk(self) -> JobScheduler:
        """Make a desk that knows nothing yet."""
        return JobScheduler(self.settings, self.network, best_solver())
