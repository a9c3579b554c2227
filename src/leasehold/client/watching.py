"""Following changes: which events are changes, and where to resume after the connection broke.

And following a job: it is polled often after news, and less often the longer there are none.
"""

from collections.abc import Callable, Iterator, Sequence

from leasehold.client.calls import Attempts, Call, Response, RetryPolicy, Source, read, reads
from leasehold.client.errors import BadResponse, Lost, Unreachable
from leasehold.protocol.fields import MAX_FOLLOWED
from leasehold.protocol.jobs import Job
from leasehold.protocol.leases import Change

PATH = "/v1/changes"
SOONEST_S = 0.1
LATEST_S = 2.0

Opened = Callable[[], object]
"""Called whenever a connection stands."""


class Watch(Source[Change]):
    """One watch over some leases, or all; it outlives its connections.

    Each connection resumes after the last change that was seen, so that none is missed or repeated.
    """

    def __init__(
        self, lease_ids: Sequence[int], after: int | None, policy: RetryPolicy, opened: Opened | None = None
    ) -> None:
        self._lease_ids = lease_ids
        self._seen = after
        self._opened = opened
        self._attempts = Attempts(policy)

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """Which changes to ask for; where there are too many leases to name, it is all, and we choose."""
        named = self._lease_ids if len(self._lease_ids) <= MAX_FOLLOWED else ()
        return tuple(("lease", str(lease_id)) for lease_id in named)

    @property
    def headers(self) -> dict[str, str]:
        """Return the header that names the last change seen; without one, changes start from now."""
        return {} if self._seen is None else {"Last-Event-ID": str(self._seen)}

    def opened(self) -> None:
        """Note that a connection is established, and call ``opened``."""
        self._attempts.reset()
        if self._opened is not None:
            self._opened()

    def changes(self, event: str, data: str) -> Iterator[Change]:
        """Read one event: one change, or none where it is something else, or was seen before."""
        if event != "change":
            return
        change = read(Change, data)
        if self._seen is not None and change.seq <= self._seen:
            return
        self._seen = change.seq
        if not self._lease_ids or change.lease in self._lease_ids:
            yield change

    def after_refusal(self, response: Response) -> float:
        """Give the pause before the next connection, in seconds; raises ProblemError for a lasting no."""
        pause_s = self._attempts.after_response(response)
        if pause_s is None:
            response.text()
            raise BadResponse(f"status {response.status} for a stream: whatever answers is not a gateway")
        return pause_s

    def after_failure(self, failure: Unreachable) -> float:
        """Give the pause before the next connection, in seconds; raises the failure after the last try."""
        return self._attempts.after_failure(failure)


def stream_ended(url: str) -> Unreachable:
    """Say that a stream, which has no end, was ended by the other side."""
    return Lost(url, "the connection was closed")


class Looks(Source[Job]):
    """The looks at one job, until it is over."""

    def __init__(self, job_id: int) -> None:
        self.call = Call("GET", f"/v1/jobs/{job_id}", reads(Job))
        self._seen: Job | None = None
        self._pause_s = SOONEST_S

    def is_news(self, job: Job) -> bool:
        """Whether it stands differently than at the look before."""
        is_news = job != self._seen
        self._seen = job
        self._pause_s = SOONEST_S if is_news else min(LATEST_S, self._pause_s * 1.5)
        return is_news

    def pause_s(self) -> float:
        """Say how long to wait until the next look."""
        return self._pause_s
