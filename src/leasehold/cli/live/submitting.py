"""What is said about a lease that was asked for, and how long it is waited for."""

from collections.abc import Iterable

from leasehold.cli.live.following import until_over
from leasehold.cli.live.wording import ADVICE, happening, has_ended_well, standing
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Client, Lease
from leasehold.client.reading import wire
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


def show_number(lease: Lease) -> None:
    """Answer with the number of a lease, and say beside it how it stands."""
    answer(str(lease.id))
    _say(lease)


def show_json(lease: Lease) -> None:
    """Answer with all that is known of a lease."""
    answer_json({"lease": wire(lease)})
    if lease.state is LeaseState.REFUSED:
        _say(lease)


def waited_for(client: Client, lease: Lease) -> Lease:
    """Say what happens to a lease until it is over, and give it as it is then."""
    if lease.is_over:
        return lease
    for change in until_over(client, [lease.id]):
        talk(happening(change))
    return client.leases.get(lease.id)


def is_a_no(lease: Lease) -> bool:
    """Whether a lease is not, and will not be, what was asked for."""
    return lease.is_over and not has_ended_well(lease)


def _say(lease: Lease) -> None:
    talk(f"leasehold: {standing(lease)}")
    if lease.state is LeaseState.REFUSED and lease.reason in ADVICE:
        talk(f"leasehold: {ADVICE[lease.reason]}")
