"""What can be lent: CPUs, memory, and whatever a site names, such as ``licence:matlab``."""

import re
from collections.abc import Mapping

from leasehold.configuration.keys import Keys
from leasehold.model.agreement import CPUS, MEMORY
from leasehold.model.errors import InvalidField

_NAMED = re.compile(r"[a-z][a-z0-9_-]*:[A-Za-z0-9][A-Za-z0-9._-]*")
_EXPECTED = f"{CPUS}, {MEMORY}, or a kind and a name, such as licence:matlab or service:database"


def check_resource(place: str, resource: str) -> None:
    """Refuse what names no resource; raises InvalidField with this place as field."""
    if resource not in (CPUS, MEMORY) and not _NAMED.fullmatch(resource):
        raise InvalidField(place, resource, _EXPECTED)


def read_resources(keys: Keys) -> dict[str, int]:
    """Take ``resources``, units of each that a cluster has besides its slots: ``{ memory_mib = 65536 }``."""
    return _units(keys, "resources", "slots say how many CPUs there are", least=0)


def read_claims(keys: Keys) -> dict[str, int]:
    """Take ``claims``, units of each that every request holds while it runs: ``{ "licence:matlab" = 1 }``."""
    table = _units(keys, "claims", "every request takes one for each VM", least=1)
    if MEMORY in table:
        place = f"{keys.where('claims')}.{MEMORY}"
        raise InvalidField(place, table[MEMORY], "another resource: memory_mib says what each VM takes")
    return table


def _units(keys: Keys, key: str, why_no_cpus: str, least: int) -> dict[str, int]:
    table = keys.table(key)
    for resource in table.left():
        check_resource(table.where(resource), resource)
        if resource == CPUS:
            raise InvalidField(table.where(CPUS), table.take(CPUS), f"another resource: {why_no_cpus}")
    return {resource: table.whole(resource, least=least) for resource in table.left()}


def claims_of(units: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Give claims in one order, as a request has them."""
    return tuple(sorted(units.items()))
