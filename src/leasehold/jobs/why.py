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
    NODES_DOWN = "nodes-down"
    WAITS_ITS_TURN = "waits-its-turn"
    WAITS_AT_SITE = "waits-at-site"
    SUSPENDED = "suspended"
    NODE_FULL = "node-full"
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
    JobReason.SUBMITTED: "was submitted and has not been scheduled yet",
    JobReason.RUNS_ON_NODES: "gets nodes that have what it needs",
    JobReason.RUNS_IN_MACHINES: "gets machines built for it, because no suitable node is available",
    JobReason.RUNS_ALONG: "has a second copy, to be as reliable as requested",
    JobReason.TAKES_OVER: "starts on its standby node, because the first attempt failed",
    JobReason.IMAGE_IS_BUILT: "waits until an image with its software is built",
    JobReason.TRIED_AGAIN_LATER: "found no room and will be retried",
    JobReason.NODES_DOWN: "waits for nodes that could run it but are down",
    JobReason.WAITS_ITS_TURN: "waits, because jobs ahead of it took the room",
    JobReason.WAITS_AT_SITE: "waits in the queue of its site",
    JobReason.SUSPENDED: "is suspended at its site",
    JobReason.NODE_FULL: "was returned to the queue, because its node was full when it was to start",
    JobReason.SITE_SAID_NOT_NOW: "was not accepted by the site and will be retried",
    JobReason.SOFTWARE_GONE: "lost its node, because the software that it needs is no longer installed there",
    JobReason.NETWORK_FAILED: "lost its node, because the node is unreachable",
    JobReason.SERVICE_STOPPED: "lost its node, because the node's own manager stopped",
    JobReason.NODE_DIED: "lost its node, because the node failed",
    JobReason.TAKEN_AWAY: "lost its node, because its lease was ended",
    JobReason.TIME_OVER: "exceeded its time limit and will not be retried",
    JobReason.COMPLETED: "ran to its end",
    JobReason.JOB_ERROR: "exited with an error and will not be retried",
    JobReason.NEVER_HERE: "cannot run anywhere here",
    JobReason.WAITED_TOO_LONG: "found no room within the retry limit",
    JobReason.NOT_SURE_ENOUGH: "cannot be made as reliable as requested",
    JobReason.IMAGE_FAILED: "needs an image that could not be built",
    JobReason.TOO_MANY_FAULTS: "exceeded its restart limit",
    JobReason.TOO_LATE: "can no longer meet its deadline",
    JobReason.CANCELLED_BY_USER: "was cancelled by its user",
    JobReason.RESULT_FENCED: "returned a result that does not count, because another was accepted first",
}


def sentence(reason: JobReason) -> str:
    """Render a reason for a person."""
    return _SENTENCES[reason]
