"""From ``together`` of a ``[[stream]]`` to a `Together`; every key checked."""

from collections.abc import Sequence
from typing import Any

from leasehold.configuration.keys import Keys
from leasehold.gateway.coallocation.placement.registry import placement_policy_names
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.model.joint import MOST_COMPONENTS, Claim
from leasehold.simulation.workload.together import Together

MOST_TRIES = 100
"""Each try may need leases of its own, and their numbers are set aside."""


def read_together(keys: Keys, clusters: Sequence[str], *, has_externals: bool) -> Together | None:
    """Read ``together``, None where it is not said; files are at one of these clusters.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    if "together" not in keys:
        keys.take("together", None)
        return None
    place, table = keys.where("together"), keys.table("together")
    if not has_externals:
        raise InvalidField(
            place, "together", "nothing here: only requests from outside can be joint requests"
        )
    usual = Together(table.number("share", least=0, most=1))
    read = Together(
        share=usual.share,
        components=_up_to(table, "components", usual.components, 2, MOST_COMPONENTS),
        claim=Claim(table.name_of("claim", Claim, usual.claim)),
        place=table.name_of("place", placement_policy_names(), usual.place),
        claim_part=_part(table, usual.claim_part),
        margin_ms=table.milliseconds("margin_s", usual.margin_ms),
        tries=_up_to(table, "tries", usual.tries, 1, MOST_TRIES),
        files=_files(table, clusters),
    )
    table.done()
    return read


def refuse_bounds(keys: Keys, together: Together | None, **said: Any) -> None:  # noqa: ANN401 - values of keys
    """Refuse what a joint request cannot be bound to: whatever of ``said`` is not empty."""
    for key, value in said.items():
        if together is not None and value:
            raise InvalidField(
                keys.where(key), value, "nothing: joint requests are not bound, and claim nothing"
            )


def _up_to(table: Keys, key: str, usual: int, least: int, most: int) -> int:
    value = table.whole(key, usual, least)
    if value > most:
        raise InvalidField(table.where(key), value, f"a whole number from {least} to {most}")
    return value


def _part(table: Keys, usual: float) -> float:
    part = table.number("claim_part", usual, 0, 1)
    if round(part * MILLION) == MILLION:
        raise InvalidField(table.where("claim_part"), part, "a part of the time to the start, less than 1")
    return part


def _files(table: Keys, clusters: Sequence[str]) -> dict[str, int]:
    """Read the MiB that are at each cluster."""
    files = Keys(table.take("files", {}), table.where("files"))
    mib = {name: files.whole(name) for name in clusters if name in files}
    for name in clusters:
        files.take(name, None)
    files.done()
    return mib
