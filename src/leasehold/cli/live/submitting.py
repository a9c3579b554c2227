"""What is said about a lease that was asked for, and how long it is waited for."""

from collections.abc import Iterable

from leasehold.cli.live.following import going_on, until_over
from leasehold.cli.live.wording import ADVICE, happening, has_ended_well, lasting, standing
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Client, Lease
from leasehold.configuration.job_description.quantities import read_mib
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState


def read_claims(texts: Iterable[str]) -> dict[str, int]:
    """Read claims such as ``licence:matlab=2``; raises InvalidField."""
    claims: dict[str, int] = {}
    for text in texts:
        resource, _, units = text.rpartition("=")
        if not resource or not (units.isascii() and units.isdigit()) or int(units) < 1:
            raise InvalidField("--claim", text, "a resource and how many of it, such as licence:matlab=2")
        claims[resource] = claims.get(resource, 0) + int(units)
    return claims


def read_memory_mib(text: str) -> int:
    """Read the memory of a machine, such as ``2GiB``; raises InvalidField."""
    return read_mib("--memory", text, "MiB", least=1)


def show_number(lease: Lease) -> None:
    """Answer with the number of a lease, and say beside it how it stands."""
    answer(str(lease.id))
    _say(lease)


def show_json(lease: Lease) -> None:
    """Answer with all that is known of a lease."""
    answer_json({"lease": lease})
    if lease.state is LeaseState.REFUSED:
        _say(lease)


def waited_for(client: Client, lease: Lease) -> Lease:
    """Say what happens to a lease until it is over, and give it as it is then."""
    if lease.is_over:
        return lease
    try:
        with going_on([lease.id]):
            for change in until_over(client, [lease.id]):
                talk(happening(change))
    except KeyboardInterrupt:
        talk(
            f"leasehold: lease {lease.id} goes on; `leasehold lease watch {lease.id}` follows it, "
            f"`leasehold lease cancel {lease.id}` ends it"
        )
        raise
    return client.leases.get(lease.id)


def is_a_no(lease: Lease) -> bool:
    """Whether a lease is not, and will not be, what was asked for."""
    return lease.is_over and not has_ended_well(lease)


def _say(lease: Lease) -> None:
    talk(f"leasehold: {standing(lease)}")
    if duration := lasting(lease):
        talk(f"leasehold: {duration}")
    if lease.state is LeaseState.REFUSED and lease.reason in ADVICE:
        talk(f"leasehold: {ADVICE[lease.reason]}")
