"""What must go with a role, so that it is worth something: its groups, its sites. And what is a name?"""

from collections.abc import Iterable
from itertools import chain

from leasehold.model.errors import InvalidField
from leasehold.service.auth.principal import Role

MOST_NAME = 255
"""The longest name of a consumer, group or site in a token: what the WLCG profile grants to a subject."""


def check_roles(roles: Iterable[Role], groups: Iterable[str], sites: Iterable[str], field: str = "") -> None:
    """Refuse roles that would mean nothing, or too much. ``field`` is put before the names of the fields.

    Raises InvalidField: no role at all; a group manager without groups, a site operator without sites; a peer
    that is anything else, or speaks for more or less than one site; names that are empty, too long, or have
    blanks.
    """
    roles, groups, sites = set(roles), list(groups), list(sites)
    if not roles:
        raise InvalidField(f"{field}roles", [], "at least one role")
    for key, name in chain((("groups", name) for name in groups), (("sites", name) for name in sites)):
        check_name(f"{field}{key}", name)
    if Role.GROUP_MANAGER in roles and not groups:
        raise InvalidField(f"{field}groups", groups, "the groups whose leases are managed")
    if Role.SITE_OPERATOR in roles and not sites:
        raise InvalidField(f"{field}sites", sites, "the sites that are operated")
    if Role.PEER in roles:
        _check_peer(roles, sites, field)


def _check_peer(roles: set[Role], sites: list[str], field: str) -> None:
    """A peer is a machine at one site, and nobody else: who takes its token has only that."""
    if roles != {Role.PEER}:
        raise InvalidField(f"{field}roles", sorted(roles), "peer alone, or other roles without it")
    if len(sites) != 1:
        raise InvalidField(f"{field}sites", sites, "the one site that the peer speaks for")


def check_name(field: str, name: str) -> None:
    """Refuse a name that could not be told from others in a list or a log. Raises InvalidField."""
    if not name or len(name) > MOST_NAME or not name.isprintable() or any(map(str.isspace, name)):
        raise InvalidField(
            field, name[:MOST_NAME], f"a name of 1 to {MOST_NAME} visible characters without blanks"
        )
