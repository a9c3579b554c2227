"""What a gateway tells of agreements and of what was used, under the names that it has on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Signature:
    """Who, and when."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Revision:
    """One wording of an agreement: its ``terms`` under the keys of a file, and who has signed it."""

    revision: int
    terms: Mapping[str, Any]
    drawn_up: Signature
    provider: Signature | None = None
    consumer: Signature | None = None


@dataclass(frozen=True, slots=True)
class UsageAgreement:
    """One agreement on who may use what of whose.

    ``standing``   proposed, signed, suspended, expired or revoked, ``since`` when and by whom
    ``in_force``   whether it holds now
    ``current``    the revision that holds, or is proposed; ``amendment`` the next one, not signed by both yet
    ``published``  whether everybody may see it
    """

    name: str
    standing: str
    in_force: bool
    current: Revision
    since: datetime
    since_by: str = ""
    amendment: Revision | None = None
    published: bool = False
    note: str = ""

    @property
    def to_sign(self) -> Revision | None:
        """The revision that waits for signatures, None if none does."""
        return self.current if self.standing == "proposed" else self.amendment


@dataclass(frozen=True, slots=True)
class Penalty:
    """A punishment: for its time no rule between these two may be broken.

    ``lease``  the lease with which the agreement was broken
    ``until``  when it ends by itself, None: never
    """

    id: int
    agreement: str
    provider: str
    consumer: str
    points: int
    stands: bool
    since: datetime
    until: datetime | None
    lease: int
    lifted_at: datetime | None = None
    lifted_by: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """What one consumer used of one virtual domain, or of a site in none, between two moments.

    ``slot_s``  VMs times seconds, exact to the millisecond
    ``local``   by the site's own users
    """

    begin: datetime
    end: datetime
    consumer: str
    domain: str
    local: bool
    slot_s: float
    leases: int
    peak_vms: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used between two moments."""

    since: datetime
    until: datetime
    usage: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What an agreement gives: parts of what its provider has, and what that comes to over the month."""

    agreement: str
    provider: str
    share: float
    burst_share: float
    slot_s: float


@dataclass(frozen=True, slots=True)
class StatementLine:
    """What concerns one virtual domain; "*" is the sum of all."""

    domain: str
    shares: tuple[Share, ...]
    slot_s: float
    capacity_slot_s: float
    used_share: float
    peak_vms: int
    leases: int
    penalties: tuple[Penalty, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a consumer was given, used and was punished for in a month."""

    month: str
    consumer: str
    begin: datetime
    end: datetime
    lines: tuple[StatementLine, ...]
