"""How often to look at a job that is followed: often after news, more rarely the longer there are none."""

from leasehold.client.job_records import Job

SOONEST_S = 0.1
LATEST_S = 2.0


class Looks:
    """The looks at one job so far."""

    def __init__(self) -> None:
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
