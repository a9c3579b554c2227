"""Several leases taken back at once, each for itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from leasehold.cli.exit_codes import DONE
from leasehold.cli.failures import exit_code
from leasehold.client import Client, Lease, ProblemError


@dataclass(slots=True)
class Cancellations:
    """What became of each; ``code`` is the exit code of the first that did not work."""

    leases: list[Lease] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)
    code: int = DONE


def cancel_each(client: Client, lease_ids: Sequence[int]) -> Cancellations:
    """Take leases back, one after the other; one that cannot be does not stand in the way of the others."""
    done = Cancellations()
    for lease_id in lease_ids:
        try:
            done.leases.append(client.leases.cancel(lease_id))
        except ProblemError as error:
            done.problems[lease_id] = str(error)
            done.code = done.code or exit_code(error)
    return done
