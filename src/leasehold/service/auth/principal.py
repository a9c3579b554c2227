"""Who asks: the outcome of looking at a token, whatever kind it was."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What somebody is in a federation; `leasehold.service.auth.permissions` says what each may do."""

    MEMBER = "member"
    GROUP_MANAGER = "group-manager"
    SITE_OPERATOR = "site-operator"
    FEDERATION_ADMIN = "federation-admin"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has shown a valid token.

    ``consumer``  the name under which leases are accounted
    ``groups``    whose leases a group manager manages; a member's first group is that of its leases
    ``sites``     home sites of a member (where local requests may be made), or those that an operator runs,
                  or the one site that a peer speaks for
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
