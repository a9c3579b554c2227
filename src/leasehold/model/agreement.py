"""The usage agreement (uSLA): provider, consumer, resource, amount, times and terms.

Dumitrescu, Iosup, Sonmez, Mohamed, Epema: Virtual domain sharing in e-science based on usage service level
agreements (2007), called *Dumitrescu et al. 2007* below. An agreement is immutable plain data;
an amendment is a new one. What it means is in `leasehold.sharing`.

Shares are whole parts per million (``ppm``) of what the provider has. Times are milliseconds on the clock of
the requests.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from leasehold.model.reason import Reason

MILLION = 1_000_000
"""All of it, in parts per million."""

EVERYBODY = "*"
"""As consumer: all guests together. As provider: all sites together."""

CPUS = "cpus"
"""The resource that every request takes: one for each core of its VMs, which is one for each VM unless it says more."""

MEMORY = "memory_mib"
"""The resource that every request takes besides."""

GPUS = "gpu_milli"
"""GPUs of any model, in thousandths; those of one model are ``gpu_milli:a100``."""

HARD = 100
"""The penalty of a rule that is never broken, unless a threshold says otherwise."""


class Standing(StrEnum):
    """Where an agreement is in its life; `leasehold.sharing.records` has the moves."""

    PROPOSED = "proposed"
    SIGNED = "signed"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class NoLimit:
    """No limit: first come, first served (section 4.1)."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """Average use stays below ``epoch_ppm`` over each epoch, and below ``burst_ppm`` over each burst.

    Section 4.1, with the printed "and": both have to hold.
    """

    epoch_ppm: int
    epoch_ms: int
    burst_ppm: int
    burst_ms: int


@dataclass(frozen=True, slots=True)
class TimeDecay:
    """Use of the present and of past windows stays below ``share_ppm``, each weighed by its own factor.

    ``factors_ppm``  the weight of the present window first; a window that has none counts for nothing
    ``normalise``    divide by the sum of the weights, so that steady use weighs as much as it is
    """

    share_ppm: int
    window_ms: int
    factors_ppm: tuple[int, ...] = (1_000_000, 500_000, 200_000, 100_000)
    normalise: bool = False


@dataclass(frozen=True, slots=True)
class UsageDecay:
    """As `TimeDecay`, but how fast a past window fades depends on how busy the provider was in it (eq 1).

    ``windows``  how many past windows count
    ``steps``    (from this utilisation on, this factor), both ppm: the last step reached holds; 0 below all
    """

    share_ppm: int
    window_ms: int
    windows: int = 3
    steps: tuple[tuple[int, int], ...] = (
        (1_000_000, 1_000_000),
        (500_000, 500_000),
        (200_000, 200_000),
        (100_000, 100_000),
    )
    normalise: bool = False


Limit = NoLimit | Commitment | TimeDecay | UsageDecay


@dataclass(frozen=True, slots=True)
class DailyHours:
    """From ``begin_min`` to before ``end_min`` of each day, minutes after midnight in the time zone ``zone``.

    An end before the begin is on the next day.
    """

    begin_min: int
    end_min: int
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules about one request at a time; None: no such rule. Section 2.1 has those of DAS.

    ``longest_ms, hours``     nothing runs for longer than this within these hours (always, without hours)
    ``reserved_ppm``          the most that advance reservations may have of the provider's CPUs at a time
    ``reserved_longest_ms``   the longest advance reservation
    """

    longest_ms: int | None = None
    hours: DailyHours | None = None
    reserved_ppm: int | None = None
    reserved_longest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """One agreement.

    ``name``              names it, once and for all
    ``provider``          the lender: a site, a virtual domain, a peer gateway, or EVERYBODY
    ``consumer``          the user: a path such as ``atlas/production`` (a VO and its group), EVERYBODY,
                          or ``@das3``: the virtual domain das3, to which a site lends
    ``resource``          which of them: CPUS, MEMORY, ``licence:matlab``, ``service:database``, ...
    ``limit``             how much
    ``lending_limit``     most units at a time, whatever the limit says; None: any number
    ``rules``             about single requests
    ``begin_ms, end_ms``  in force from, and until before; None: always, for ever
    ``priority``          where several of one provider speak to one consumer of one resource, the highest
                          holds alone
    ``penalty``           the severity of a breach; below a threshold it may be broken, which is
                          penalised
    ``penalty_ms``        how long a penalty lasts; None: until it is lifted
    ``parent``            the agreement that this one passes a part of on, "" for none
    ``relative``          the shares are shares of what the parent has, not of the provider
    """

    name: str
    provider: str
    consumer: str
    limit: Limit
    resource: str = CPUS
    lending_limit: int | None = None
    rules: Rules = field(default_factory=Rules)
    begin_ms: int | None = None
    end_ms: int | None = None
    priority: int = 0
    penalty: int = HARD
    penalty_ms: int | None = None
    parent: str = ""
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Breach:
    """The rule that says no to a request, and its numbers.

    ``consumer``     whose use it is about
    ``used, limit``  ppm of what the provider has, for a share; units, for a lending limit; ms, for a duration
    ``window_ms``    over which the use was looked at, 0 where it is about this moment
    ``next_ms``      when there is room again if use continues unchanged, None if unknown
    ``until_ms``     before this nothing changes, whatever happens; 0: anything may change it
    """

    agreement: str
    provider: str
    consumer: str
    resource: str
    reason: Reason
    used: int
    limit: int
    window_ms: int = 0
    next_ms: int | None = None
    until_ms: int = 0
    penalty: int = HARD


@dataclass(frozen=True, slots=True)
class Penalty:
    """A punishment: for its time no rule between these two may be broken, however light it is."""

    agreement: str
    provider: str
    consumer: str
    points: int
    since_ms: int
    until_ms: int | None
