"""The principal of a request, as its token states it, and the checks of names, groups and roles."""

from collections.abc import Iterable
from dataclasses import dataclass

from leasehold.model.errors import InvalidField
from leasehold.protocol.tokens import Role
from leasehold.service.messages.endpoints import OF_PEERS
from leasehold.sharing.parties import A_NAME, A_PATH, MOST_NAME, is_name, is_path

__all__ = ["Principal", "Role"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The bearer of a valid token.

    ``consumer``  the name under which leases are accounted
    ``groups``    those whose leases a group manager manages; a member's first group is that of its leases
    ``sites``     home sites of a member (where local requests may be made), the sites that an operator runs,
                  or the one site that a peer represents
    ``token_id``  of the stored token, "" for a JWT
    """

    consumer: str
    roles: frozenset[Role]
    groups: tuple[str, ...] = ()
    sites: frozenset[str] = frozenset()
    token_id: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether another issuer vouches for them, and not a token that was made here."""
        return not self.token_id


_OF_ISSUERS = "@"
"""Separates subject and issuer in the name of an issuer's consumer; no other name contains it."""


def check_roles(roles: Iterable[Role], groups: Iterable[str], sites: Iterable[str], field: str = "") -> None:
    """Reject roles that grant nothing, or too much. ``field`` is the prefix of the field names in errors.

    Raises InvalidField: no role at all; a group manager without groups, a site operator without sites; a peer
    that is anything else, or speaks for more or less than one site; groups that are not paths; sites that
    are empty, too long, or have blanks.
    """
    roles, groups, sites = set(roles), list(groups), list(sites)
    if not roles:
        raise InvalidField(f"{field}roles", [], "at least one role")
    for name in groups:
        check_group(f"{field}groups", name)
    for name in sites:
        check_site(f"{field}sites", name)
    if Role.GROUP_MANAGER in roles and not groups:
        raise InvalidField(f"{field}groups", groups, "the groups whose leases are managed")
    if Role.SITE_OPERATOR in roles and not sites:
        raise InvalidField(f"{field}sites", sites, "the sites that are operated")
    if Role.PEER in roles:
        _check_peer(roles, sites, field)


def _check_peer(roles: set[Role], sites: list[str], field: str) -> None:
    """Reject a peer with other roles or sites: its token must be worth no more than one site if stolen."""
    if roles != {Role.PEER}:
        raise InvalidField(f"{field}roles", sorted(roles), "peer alone, or other roles without it")
    if len(sites) != 1:
        raise InvalidField(f"{field}sites", sites, "the one site that the peer speaks for")


def check_consumer(field: str, name: str, roles: Iterable[Role]) -> None:
    """Reject the name of a local consumer that could be mistaken for another account. Raises InvalidField.

    A name is one part of a path, so that no consumer is below another by its name alone; and only the names of
    issuers' consumers have an ``@``. A peer makes no requests under its own name, which may be a path.
    """
    if Role.PEER in roles and is_path(name):
        return
    if not is_name(name) or _OF_ISSUERS in name or name == OF_PEERS:
        expected = f"{A_NAME}, without '@' (which marks consumers of an issuer), and not {OF_PEERS!r}"
        raise InvalidField(field, name[:MOST_NAME], expected)


def check_group(field: str, name: str) -> None:
    """Refuse a group that is not a path, or that could be the account of an issuer's consumer.

    Raises InvalidField.
    """
    if not is_path(name) or _OF_ISSUERS in name or name.split("/", maxsplit=1)[0] == OF_PEERS:
        raise InvalidField(field, name[:MOST_NAME], f"{A_PATH}, without '@', the first not {OF_PEERS!r}")


def check_site(field: str, name: str) -> None:
    """Reject a name that could be confused with others in a list or a log. Raises InvalidField."""
    if not name or len(name) > MOST_NAME or not name.isprintable() or any(map(str.isspace, name)):
        raise InvalidField(field, name[:MOST_NAME], f"a name of 1 to {MOST_NAME} visible characters without blanks")
