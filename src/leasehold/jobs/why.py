"""Why is a job as it is? A closed list of what the desk says, beside the reasons of matching."""

from enum import StrEnum


class JobReason(StrEnum):
    """Why it was decided so."""

    SUBMITTED = "submitted"
    # where and when
    RUNS_ON_NODES = "runs-on-nodes"
    RUNS_IN_MACHINES = "runs-in-machines"
    RUNS_ALONG = "runs-along"
    TAKES_OVER = "takes-over"
    IMAGE_IS_BUILT = "image-is-built"
    TRIED_AGAIN_LATER = "tried-again-later"
    WAITS_ITS_TURN = "waits-its-turn"
    SITE_SAID_NOT_NOW = "site-said-not-now"
    # faults
    SOFTWARE_GONE = "software-gone"
    NETWORK_FAILED = "network-failed"
    SERVICE_STOPPED = "service-stopped"
    NODE_DIED = "node-died"
    TAKEN_AWAY = "taken-away"
    TIME_OVER = "time-over"
    # over
    COMPLETED = "completed"
    JOB_ERROR = "job-error"
    NEVER_HERE = "never-here"
    WAITED_TOO_LONG = "waited-too-long"
    NOT_SURE_ENOUGH = "not-sure-enough"
    IMAGE_FAILED = "image-failed"
    TOO_MANY_FAULTS = "too-many-faults"
    TOO_LATE = "too-late"
    CANCELLED_BY_USER = "cancelled-by-user"
    # results that do not count
    RESULT_FENCED = "result-fenced"


_SENTENCES: dict[JobReason, str] = {
    JobReason.SUBMITTED: "was submitted, and nobody has looked at it yet",
    JobReason.RUNS_ON_NODES: "runs on nodes that have what it needs",
    JobReason.RUNS_IN_MACHINES: "runs in machines built for it, as no node with all it needs could be had",
    JobReason.RUNS_ALONG: "runs a second time beside the first, as it is asked to be that sure",
    JobReason.TAKES_OVER: "begins at the place that was kept ready, because the first one failed",
    JobReason.IMAGE_IS_BUILT: "waits until an image with its software is built",
    JobReason.TRIED_AGAIN_LATER: "found no room, and is tried again",
    JobReason.WAITS_ITS_TURN: "waits, because the room went to jobs ahead of it",
    JobReason.SITE_SAID_NOT_NOW: "was not taken by the site, and is tried again",
    JobReason.SOFTWARE_GONE: "lost its place, because the software that it needs is gone from the node",
    JobReason.NETWORK_FAILED: "lost its place, because the node cannot be reached",
    JobReason.SERVICE_STOPPED: "lost its place, because the node's own manager has stopped",
    JobReason.NODE_DIED: "lost its place, because the node has died",
    JobReason.TAKEN_AWAY: "lost its place, because its lease was taken back",
    JobReason.TIME_OVER: "ran longer than it may, and is not tried again",
    JobReason.COMPLETED: "ran to its end",
    JobReason.JOB_ERROR: "ended with an error of its own, and is not tried again",
    JobReason.NEVER_HERE: "can run nowhere here",
    JobReason.WAITED_TOO_LONG: "was tried as long as is allowed, and there was no room",
    JobReason.NOT_SURE_ENOUGH: "cannot be made as sure as is asked",
    JobReason.IMAGE_FAILED: "needs an image that could not be built",
    JobReason.TOO_MANY_FAULTS: "met more faults than it may begin anew after",
    JobReason.TOO_LATE: "cannot be done before its deadline any more",
    JobReason.CANCELLED_BY_USER: "was cancelled by its user",
    JobReason.RESULT_FENCED: "has a result that does not count, as another one was taken before",
}


def sentence(reason: JobReason) -> str:
    """Render a reason for a person."""
    return _SENTENCES[reason]
