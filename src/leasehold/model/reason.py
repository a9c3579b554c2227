"""Why: a closed list, so that reasons can be counted, compared and translated.

Two kinds of no are kept apart (never here, not now), and a sentence is made last
(`sentence`), never stored.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """What was decided. The four verdicts on a request are ordered: never < wait < preempt < fit."""

    REFUSE = "refuse"
    WAIT = "wait"
    PREEMPT = "preempt"
    START = "start"
    DISPATCH = "dispatch"
    HOLD = "hold"
    MOVE = "move"
    EXTEND = "extend"
    DENY = "deny"
    """An extension was not given; the lease stays as it is."""


class Reason(StrEnum):
    """Why it was decided so."""

    # never here
    WIDER_THAN_SITE = "wider-than-site"
    WIDER_THAN_ANY_SITE = "wider-than-any-site"
    WIDER_THAN_DOMAIN = "wider-than-domain"
    DEADLINE_TOO_TIGHT = "deadline-too-tight"
    NO_ROOM_AT_READY_TIME = "no-room-at-ready-time"
    NON_PREEMPTABLE_NOT_LENT = "non-preemptable-not-lent"
    WIDER_THAN_LENT = "wider-than-lent"
    NON_PREEMPTABLE_SHARE_USED = "non-preemptable-share-used"
    NON_PREEMPTABLE_TOO_LONG = "non-preemptable-too-long"
    LOCAL_QUEUE_CLOSED = "local-queue-closed"
    NO_SITE_CAN = "no-site-can"
    POLICY_REFUSED = "policy-refused"
    TOO_RISKY = "too-risky"
    PEER_HAS_ITS_FILL = "peer-has-its-fill"
    NO_AGREEMENT = "no-agreement"
    PREEMPTABLE_ONLY = "preemptable-only"
    NOT_A_MEMBER = "not-a-member"
    AGREEMENT_REVOKED = "agreement-revoked"
    MORE_THAN_AGREED = "more-than-agreed"
    LONGER_THAN_AGREED = "longer-than-agreed"
    NO_COMMON_ROOM = "no-common-room"
    RESOURCE_NOT_THERE = "resource-not-there"
    # not now
    ROOM_IN_USE = "room-in-use"
    BEHIND_OTHERS = "behind-others"
    PEER_AT_ITS_LIMIT = "peer-at-its-limit"
    NOT_READY_YET = "not-ready-yet"
    HELD_AT_GATEWAY = "held-at-gateway"
    PARKED = "parked"
    NO_SITE_LENDS = "no-site-lends"
    SITE_DRAINED = "site-drained"
    SITE_SILENT = "site-silent"
    STARTED_LATE = "started-late"
    NOT_RUNNING = "not-running"
    DECIDED_ELSEWHERE = "decided-elsewhere"
    STILL_SAVING = "still-saving"
    LOCAL_PLAN_CHANGED = "local-plan-changed"
    WAS_AWAY = "was-away"
    SHARE_USED = "share-used"
    LENT_TO_THE_LIMIT = "lent-to-the-limit"
    OUTSIDE_AGREED_HOURS = "outside-agreed-hours"
    RESOURCE_IN_USE = "resource-in-use"
    RESERVED_TO_THE_LIMIT = "reserved-to-the-limit"
    ANOTHER_WAS_STARTED = "another-was-started"
    BEHIND_ITS_OWN = "behind-its-own"
    AWAITS_ITS_PARTS = "awaits-its-parts"
    CALLED_OFF = "called-off"
    BROUGHT_FORWARD = "brought-forward"
    # now
    ROOM_FREE = "room-free"
    ROOM_MADE = "room-made"
    RESERVED_START = "reserved-start"
    BACKFILLED = "backfilled"
    STARTED_BY_OWN_SCHEDULER = "started-by-own-scheduler"
    ROUTED = "routed"
    ROOM_ELSEWHERE = "room-elsewhere"
    QUIET_ENOUGH = "quiet-enough"
    NO_MORE_TIME = "no-more-time"
    PLACED_TOGETHER = "placed-together"
    SENT_TO_PEER = "sent-to-peer"
    EXTENDED = "extended"
    # preempted
    LOCAL_NEEDS_ROOM = "local-needs-room"
    PROMISE_NEEDS_ROOM = "promise-needs-room"
    NOBODY_ELSE_COULD = "nobody-else-could"
    SITE_SHRANK = "site-shrank"
    # ended
    COMPLETED = "completed"
    WALLTIME_REACHED = "walltime-reached"
    TERMINATED = "terminated"
    DEADLINE_LOST = "deadline-lost"
    MACHINES_LOST = "machines-lost"
    NEVER_STARTED = "never-started"
    CANCELLED_BY_USER = "cancelled-by-user"
    CLAIM_GIVEN_BACK = "claim-given-back"
    PART_LOST = "part-lost"
    HORIZON_REACHED = "horizon-reached"


NEVER = frozenset(
    {
        Reason.NO_AGREEMENT,
        Reason.PREEMPTABLE_ONLY,
        Reason.NOT_A_MEMBER,
        Reason.MORE_THAN_AGREED,
        Reason.LONGER_THAN_AGREED,
        Reason.RESOURCE_NOT_THERE,
    }
)
"""What agreements say for good; of their other reasons there is a time when they do not hold."""

PREEMPTED = frozenset(
    {Reason.LOCAL_NEEDS_ROOM, Reason.PROMISE_NEEDS_ROOM, Reason.NOBODY_ELSE_COULD, Reason.SITE_SHRANK}
)
"""Why a lease gave way to others."""

_SENTENCES: dict[Reason, str] = {
    Reason.WIDER_THAN_SITE: "asks for more VMs than this site has",
    Reason.WIDER_THAN_ANY_SITE: "asks for more VMs than any site has",
    Reason.WIDER_THAN_DOMAIN: "asks for more VMs than any site of the domain has that it is bound to",
    Reason.DEADLINE_TOO_TIGHT: "cannot end before its deadline at this site",
    Reason.NO_ROOM_AT_READY_TIME: "must start at its ready time, and there is no room then",
    Reason.NON_PREEMPTABLE_NOT_LENT: "could not be preempted, and the site's owner allows no such guests "
    "(non_preemptable_share and non_preemptable_max_s of the [[cluster]] say how many, and for how long)",
    Reason.WIDER_THAN_LENT: "asks for more VMs than the site's share for Non-preemptable guests",
    Reason.NON_PREEMPTABLE_SHARE_USED: "the site's share for Non-preemptable guests is used up",
    Reason.NON_PREEMPTABLE_TOO_LONG: "is longer than the site lends without the right to preempt",
    Reason.LOCAL_QUEUE_CLOSED: "cannot start now, and this site refuses local requests that would wait",
    Reason.NO_SITE_CAN: "needs what no site's machines can do: be suspended, or be moved",
    Reason.POLICY_REFUSED: "the routing policy refused it",
    Reason.TOO_RISKY: "would most likely have to give way before its end, at every site",
    Reason.PEER_HAS_ITS_FILL: "asks for more VMs than a gateway may have at its peer at a time",
    Reason.NO_AGREEMENT: "has no agreement with any site that it could go to",
    Reason.PREEMPTABLE_ONLY: "could not be preempted, and without an agreement only who can be is let in",
    Reason.NOT_A_MEMBER: "is of another issuer or gateway, and has no agreement with any site it could go to",
    Reason.AGREEMENT_REVOKED: "waited under an agreement that was revoked",
    Reason.MORE_THAN_AGREED: "asks for more at a time than its agreement gives",
    Reason.LONGER_THAN_AGREED: "is longer than its agreement allows",
    Reason.NO_COMMON_ROOM: "is part of a co-allocation whose components cannot have room at the same time",
    Reason.RESOURCE_NOT_THERE: "needs more of a licence, service or memory than any site has",
    Reason.ROOM_IN_USE: "waits until enough VMs are free",
    Reason.BEHIND_OTHERS: "would fit now, but would delay requests that are ahead of it",
    Reason.PEER_AT_ITS_LIMIT: "waits because the gateway that sent it has as many VMs here as it may have",
    Reason.NOT_READY_YET: "waits for its ready time",
    Reason.HELD_AT_GATEWAY: "waits at the gateway for a better moment",
    Reason.PARKED: "waits, saved at its site, until it is likely to be left in peace",
    Reason.NO_SITE_LENDS: "waits at the gateway until a site that could take it lends again",
    Reason.SITE_DRAINED: "went back to the gateway because its site takes no new guests",
    Reason.SITE_SILENT: "waits because the machines of its site do not answer",
    Reason.STARTED_LATE: "was planned anew because machines ahead of it took longer to start than planned",
    Reason.NOT_RUNNING: "cannot be extended while it holds no machines",
    Reason.DECIDED_ELSEWHERE: "is at a site that decides for itself, and can be extended only there",
    Reason.STILL_SAVING: "cannot be resumed as planned, because saving its memory takes longer than planned",
    Reason.LOCAL_PLAN_CHANGED: "was planned anew because the site's own users need the room",
    Reason.WAS_AWAY: "was planned anew because nobody could start it at its time",
    Reason.SHARE_USED: "waits because its consumer has used the agreed share",
    Reason.LENT_TO_THE_LIMIT: "waits because its consumer has as much as is lent to it at a time",
    Reason.OUTSIDE_AGREED_HOURS: "is too long for these hours, and waits for others",
    Reason.RESOURCE_IN_USE: "waits for a licence or service that others use",
    Reason.RESERVED_TO_THE_LIMIT: "waits because as much is reserved in advance as may be",
    Reason.BEHIND_ITS_OWN: "waits behind an earlier request of its own consumer",
    Reason.AWAITS_ITS_PARTS: "waits until there is room for all components of its co-allocation",
    Reason.CALLED_OFF: "gave promised room back because another component of its request has none",
    Reason.BROUGHT_FORWARD: "gave promised room back for an earlier start of its co-allocation",
    Reason.ANOTHER_WAS_STARTED: "waits on, because the site's own scheduler started another job first",
    Reason.ROOM_FREE: "got free room at once",
    Reason.ROOM_MADE: "got room at once that guests gave up",
    Reason.RESERVED_START: "got its room at its reserved time",
    Reason.BACKFILLED: "got room ahead of others without delaying them",
    Reason.STARTED_BY_OWN_SCHEDULER: "was started by the site's own scheduler",
    Reason.ROUTED: "was sent to this site by the routing policy",
    Reason.ROOM_ELSEWHERE: "was sent on to this site, which can start it now",
    Reason.QUIET_ENOUGH: "goes on, because it is likely enough to be left in peace",
    Reason.NO_MORE_TIME: "goes on, because its deadline lets it wait no longer",
    Reason.PLACED_TOGETHER: "was placed at this site together with the rest of its co-allocation",
    Reason.SENT_TO_PEER: "was sent to a peer, because no site here can take it, or none can now",
    Reason.EXTENDED: "may last longer than it asked for at first",
    Reason.LOCAL_NEEDS_ROOM: "gave way to a local request",
    Reason.PROMISE_NEEDS_ROOM: "gave way to a Non-preemptable guest whose promised time had come",
    Reason.NOBODY_ELSE_COULD: "gave way although its site guarantees it more, because nobody else could",
    Reason.SITE_SHRANK: "gave way, or was planned anew, because its site has fewer VMs than before",
    Reason.COMPLETED: "ran to its end",
    Reason.WALLTIME_REACHED: "was ended at its requested time",
    Reason.TERMINATED: "was terminated to make room for somebody who comes first",
    Reason.DEADLINE_LOST: "was preempted and could not be finished before its deadline anywhere",
    Reason.MACHINES_LOST: "lost its machines",
    Reason.NEVER_STARTED: "was given room, and its machines never started",
    Reason.CANCELLED_BY_USER: "was cancelled by its user",
    Reason.CLAIM_GIVEN_BACK: "gave idle machines back because another component of its request has none",
    Reason.PART_LOST: "was stopped because another component of its co-allocation was lost",
    Reason.HORIZON_REACHED: "was still unfinished when the simulated time was over",
}


def sentence(reason: Reason) -> str:
    """Render a reason for a person."""
    return _SENTENCES[reason]
