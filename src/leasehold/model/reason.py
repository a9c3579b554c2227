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
    NON_PREEMPTABLE_NOT_ALLOWED = "non-preemptable-not-allowed"
    WIDER_THAN_NON_PREEMPTABLE_SHARE = "wider-than-non-preemptable-share"
    NON_PREEMPTABLE_SHARE_EXHAUSTED = "non-preemptable-share-exhausted"
    NON_PREEMPTABLE_TOO_LONG = "non-preemptable-too-long"
    LOCAL_QUEUE_CLOSED = "local-queue-closed"
    NO_CAPABLE_SITE = "no-capable-site"
    POLICY_REFUSED = "policy-refused"
    TOO_RISKY = "too-risky"
    PEER_QUOTA_EXCEEDED = "peer-quota-exceeded"
    REQUEST_LOOP = "request-loop"
    DUPLICATE_REQUEST = "duplicate-request"
    UNTRUSTED_PATH = "untrusted-path"
    HOP_LIMIT_REACHED = "hop-limit-reached"
    NO_AGREEMENT = "no-agreement"
    PREEMPTABLE_ONLY = "preemptable-only"
    NOT_A_MEMBER = "not-a-member"
    AGREEMENT_REVOKED = "agreement-revoked"
    EXCEEDS_AGREEMENT = "exceeds-agreement"
    EXCEEDS_AGREED_DURATION = "exceeds-agreed-duration"
    NO_COMMON_ROOM = "no-common-room"
    RESOURCE_UNAVAILABLE = "resource-unavailable"
    NO_SUCH_GPU = "no-such-gpu"
    GPUS_LENT_WHOLE = "gpus-lent-whole"
    NO_NODE_FITS = "no-node-fits"
    NO_SUCH_IMAGE = "no-such-image"
    NO_LOGIN = "no-login"
    # not now
    ROOM_IN_USE = "room-in-use"
    BEHIND_OTHERS = "behind-others"
    PEER_QUOTA_REACHED = "peer-quota-reached"
    NOT_READY_YET = "not-ready-yet"
    HELD_AT_GATEWAY = "held-at-gateway"
    SUSPENDED_UNTIL_QUIET = "suspended-until-quiet"
    NO_SITE_AVAILABLE = "no-site-available"
    SITE_DRAINED = "site-drained"
    SITE_UNREACHABLE = "site-unreachable"
    HANDED_BACK = "handed-back"
    MACHINES_LOST_RESTARTED = "machines-lost-restarted"
    DELAYED_BY_SLOW_START = "delayed-by-slow-start"
    NOT_RUNNING = "not-running"
    EXTENSION_UNDER_WAY = "extension-under-way"
    STILL_SUSPENDING = "still-suspending"
    LOCAL_PLAN_CHANGED = "local-plan-changed"
    MISSED_START = "missed-start"
    SHARE_EXHAUSTED = "share-exhausted"
    CONCURRENCY_LIMIT_REACHED = "concurrency-limit-reached"
    OUTSIDE_AGREED_HOURS = "outside-agreed-hours"
    RESOURCE_IN_USE = "resource-in-use"
    RESERVATION_LIMIT_REACHED = "reservation-limit-reached"
    NATIVE_JOB_STARTED_FIRST = "native-job-started-first"
    BEHIND_OWN_REQUEST = "behind-own-request"
    WAITING_FOR_COMPONENTS = "waiting-for-components"
    COMPONENT_UNPLACEABLE = "component-unplaceable"
    RESCHEDULED_EARLIER = "rescheduled-earlier"
    # now
    ROOM_FREE = "room-free"
    ROOM_MADE = "room-made"
    RESERVED_START = "reserved-start"
    BACKFILLED = "backfilled"
    STARTED_BY_NATIVE_SCHEDULER = "started-by-native-scheduler"
    ROUTED = "routed"
    ROOM_ELSEWHERE = "room-elsewhere"
    LOW_PREEMPTION_RISK = "low-preemption-risk"
    DEADLINE_FORCES_RESUME = "deadline-forces-resume"
    COALLOCATED = "coallocated"
    SENT_TO_PEER = "sent-to-peer"
    EXTENDED = "extended"
    # preempted
    LOCAL_NEEDS_ROOM = "local-needs-room"
    RESERVATION_NEEDS_ROOM = "reservation-needs-room"
    NO_OTHER_VICTIM = "no-other-victim"
    SITE_SHRANK = "site-shrank"
    # ended
    COMPLETED = "completed"
    WALLTIME_REACHED = "walltime-reached"
    TERMINATED = "terminated"
    DEADLINE_LOST = "deadline-lost"
    MACHINES_LOST = "machines-lost"
    PEER_REMOVED = "peer-removed"
    RESTART_LIMIT_REACHED = "restart-limit-reached"
    RESTART_TOO_LATE = "restart-too-late"
    NEVER_STARTED = "never-started"
    CANCELLED_BY_USER = "cancelled-by-user"
    CLAIM_RELEASED = "claim-released"
    PROMISE_EXPIRED = "promise-expired"
    COMPONENT_LOST = "component-lost"
    HORIZON_REACHED = "horizon-reached"


NEVER = frozenset(
    {
        Reason.NO_AGREEMENT,
        Reason.PREEMPTABLE_ONLY,
        Reason.NOT_A_MEMBER,
        Reason.EXCEEDS_AGREEMENT,
        Reason.EXCEEDS_AGREED_DURATION,
        Reason.RESOURCE_UNAVAILABLE,
    }
)
"""Permanent reasons of agreements; the others cease to apply at some time."""

PREEMPTED = frozenset(
    {Reason.LOCAL_NEEDS_ROOM, Reason.RESERVATION_NEEDS_ROOM, Reason.NO_OTHER_VICTIM, Reason.SITE_SHRANK}
)
"""Why a lease gave way to others."""

_SENTENCES: dict[Reason, str] = {
    Reason.WIDER_THAN_SITE: "requests more VMs than this site has",
    Reason.WIDER_THAN_ANY_SITE: "requests more VMs than any site has",
    Reason.WIDER_THAN_DOMAIN: "requests more VMs than any site of its domain has",
    Reason.DEADLINE_TOO_TIGHT: "cannot finish before its deadline at this site",
    Reason.NO_ROOM_AT_READY_TIME: "must start at its ready time, when there is not enough room",
    Reason.NON_PREEMPTABLE_NOT_ALLOWED: "cannot be preempted, and the site's owner admits no such guests "
    "(set non_preemptable_share and non_preemptable_max_s of the [[cluster]] to admit some)",
    Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE: "requests more VMs than the site's share for Non-preemptable guests",
    Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED: "the site's share for Non-preemptable guests is exhausted",
    Reason.NON_PREEMPTABLE_TOO_LONG: "runs longer than the site lends without the right to preempt",
    Reason.LOCAL_QUEUE_CLOSED: "cannot start now, and this site refuses local requests that would have to wait",
    Reason.NO_CAPABLE_SITE: "needs machines that can be suspended or moved, and no site has them",
    Reason.POLICY_REFUSED: "was refused by the routing policy",
    Reason.TOO_RISKY: "would probably be preempted before its end at every site",
    Reason.PEER_QUOTA_EXCEEDED: "requests more VMs than its gateway may hold at this peer at once",
    Reason.REQUEST_LOOP: "came back to a gateway that it had passed before",
    Reason.DUPLICATE_REQUEST: "is at this gateway already, by another path",
    Reason.UNTRUSTED_PATH: "states a path that does not end with the peer that sent it",
    Reason.HOP_LIMIT_REACHED: "has passed as many gateways as the terms with peers allow",
    Reason.NO_AGREEMENT: "has no agreement with any site that could take it",
    Reason.PREEMPTABLE_ONLY: "cannot be preempted, and without an agreement only preemptable guests are admitted",
    Reason.NOT_A_MEMBER: "comes from another issuer or gateway, and has no agreement with any site that could take it",
    Reason.AGREEMENT_REVOKED: "waited under an agreement that was revoked",
    Reason.EXCEEDS_AGREEMENT: "requests more at once than its agreement allows",
    Reason.EXCEEDS_AGREED_DURATION: "runs longer than its agreement allows",
    Reason.NO_COMMON_ROOM: "is part of a co-allocation whose components can never have room at the same time",
    Reason.RESOURCE_UNAVAILABLE: "needs more of a licence, service or memory than any site has",
    Reason.NO_SUCH_GPU: "requests GPUs of a model that no node here has, or GPUs where none are stated",
    Reason.GPUS_LENT_WHOLE: "requests a fraction of a GPU, and nodes that have such GPUs lend them only whole",
    Reason.NO_NODE_FITS: "requests machines with more cores, memory or GPUs than any node here has",
    Reason.NO_SUCH_IMAGE: "names an image that no site large enough for it has",
    Reason.NO_LOGIN: "wants to log in by a key, and no site large enough for it lets users do so",
    Reason.ROOM_IN_USE: "waits until enough VMs are free",
    Reason.BEHIND_OTHERS: "would fit now, but would delay requests ahead of it",
    Reason.PEER_QUOTA_REACHED: "waits because the gateway that sent it holds its full quota of VMs here",
    Reason.NOT_READY_YET: "waits for its ready time",
    Reason.HELD_AT_GATEWAY: "waits at the gateway for a better moment",
    Reason.SUSPENDED_UNTIL_QUIET: "suspended; resumes when preemption is unlikely",
    Reason.NO_SITE_AVAILABLE: "waits at the gateway until a suitable site lends again",
    Reason.SITE_DRAINED: "returned to the gateway because its site is drained",
    Reason.SITE_UNREACHABLE: "waits because the machines of its site do not answer",
    Reason.HANDED_BACK: "was handed back by its site, where it could not continue in time, to be moved to another",
    Reason.MACHINES_LOST_RESTARTED: "lost its machines, and begins again from the start of its work",
    Reason.DELAYED_BY_SLOW_START: "was replanned because machines ahead of it took longer to start than planned",
    Reason.NOT_RUNNING: "cannot be extended while it holds no machines",
    Reason.EXTENSION_UNDER_WAY: "is being extended already: its site has not answered yet",
    Reason.STILL_SUSPENDING: "cannot resume as planned because saving its memory takes longer than planned",
    Reason.LOCAL_PLAN_CHANGED: "was replanned because the site's own users need the room",
    Reason.MISSED_START: "was replanned because the gateway was not running at its start time",
    Reason.SHARE_EXHAUSTED: "waits because its consumer has used its agreed share",
    Reason.CONCURRENCY_LIMIT_REACHED: "waits because its consumer holds as much as it may at once",
    Reason.OUTSIDE_AGREED_HOURS: "is too long for the current hours, and waits for others",
    Reason.RESOURCE_IN_USE: "waits for a licence or service that is in use",
    Reason.RESERVATION_LIMIT_REACHED: "waits because no more may be reserved in advance",
    Reason.NATIVE_JOB_STARTED_FIRST: "still waits because the site's own scheduler started another job first",
    Reason.BEHIND_OWN_REQUEST: "waits behind an earlier request of the same consumer",
    Reason.WAITING_FOR_COMPONENTS: "waits until all components of its co-allocation have room",
    Reason.COMPONENT_UNPLACEABLE: "released its reservation because another component of its co-allocation has no room",
    Reason.RESCHEDULED_EARLIER: "released its reservation for an earlier start of its co-allocation",
    Reason.ROOM_FREE: "got free room at once",
    Reason.ROOM_MADE: "got room at once that guests gave up",
    Reason.RESERVED_START: "started at its reserved time",
    Reason.BACKFILLED: "started ahead of others without delaying them",
    Reason.STARTED_BY_NATIVE_SCHEDULER: "was started by the site's own scheduler",
    Reason.ROUTED: "was sent to this site by the routing policy",
    Reason.ROOM_ELSEWHERE: "was sent on to this site, which can start it now",
    Reason.LOW_PREEMPTION_RISK: "resumes because preemption has become unlikely",
    Reason.DEADLINE_FORCES_RESUME: "resumes because its deadline allows no more waiting",
    Reason.COALLOCATED: "was placed at this site with the rest of its co-allocation",
    Reason.SENT_TO_PEER: "was sent to a peer because no site here can take it, or none can now",
    Reason.EXTENDED: "may run longer than first requested",
    Reason.LOCAL_NEEDS_ROOM: "was preempted by a local request",
    Reason.RESERVATION_NEEDS_ROOM: "was preempted by a Non-preemptable guest whose reserved time had come",
    Reason.NO_OTHER_VICTIM: "was preempted below its guaranteed share because no other guest could be preempted",
    Reason.SITE_SHRANK: "was preempted or replanned because its site has fewer VMs than before",
    Reason.COMPLETED: "ran to its end",
    Reason.WALLTIME_REACHED: "was ended at its requested time",
    Reason.TERMINATED: "was terminated to make room for a request with precedence",
    Reason.DEADLINE_LOST: "was preempted and could not finish before its deadline anywhere",
    Reason.MACHINES_LOST: "lost its machines",
    Reason.PEER_REMOVED: "was at a peer that was removed",
    Reason.RESTART_LIMIT_REACHED: "lost its machines, and had begun again as often as it may",
    Reason.RESTART_TOO_LATE: "lost its machines, and cannot begin again and finish before its deadline",
    Reason.NEVER_STARTED: "was given room, but its machines never started",
    Reason.CANCELLED_BY_USER: "was cancelled by its user",
    Reason.CLAIM_RELEASED: "released idle machines because another component of its co-allocation has no room",
    Reason.PROMISE_EXPIRED: "released its reservation because not every site of its co-allocation promised in time",
    Reason.COMPONENT_LOST: "was stopped because another component of its co-allocation was lost",
    Reason.HORIZON_REACHED: "was unfinished when the simulated time was over",
}


def sentence(reason: Reason) -> str:
    """Render a reason for a person."""
    return _SENTENCES[reason]
