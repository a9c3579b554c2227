"""What happens, as it happens: which events are changes, and where to go on after the connection broke."""

import json
from collections.abc import Callable, Iterator, Sequence

from leasehold.client.answer import Answer
from leasehold.client.errors import BadAnswer, Lost, Unreachable
from leasehold.client.patience import Attempts, Patience
from leasehold.client.reading import read
from leasehold.client.records import Change

PATH = "/v1/changes"
MOST_NAMED = 100
"""So many leases can be asked for by their numbers, the most that a gateway takes."""

Opened = Callable[[], object]
"""Called whenever a connection stands."""


class Watch:
    """One watch over some leases, or all; it outlives its connections.

    Each connection goes on after the last change that was seen, so that none is missed or told twice.
    """

    def __init__(
        self, lease_ids: Sequence[int], after: int | None, patience: Patience, opened: Opened | None = None
    ) -> None:
        self._lease_ids = lease_ids
        self._seen = after
        self._opened = opened
        self._attempts = Attempts(patience)

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """Which changes to ask for; where there are too many leases to name, it is all, and we choose."""
        named = self._lease_ids if len(self._lease_ids) <= MOST_NAMED else ()
        return tuple(("lease", str(lease_id)) for lease_id in named)

    @property
    def headers(self) -> dict[str, str]:
        """Say after which change to go on; without one it is from now on."""
        return {} if self._seen is None else {"Last-Event-ID": str(self._seen)}

    def opened(self) -> None:
        """Note that a connection stands, and say so."""
        self._attempts.start_anew()
        if self._opened is not None:
            self._opened()

    def changes(self, event: str, data: str) -> Iterator[Change]:
        """Read one event: one change, or none where it is something else, or was seen before."""
        if event != "change":
            return
        try:
            change = read(Change, json.loads(data))
        except ValueError as error:
            raise BadAnswer(f"the gateway's change is no JSON: {data!r:.80}") from error
        if self._seen is not None and change.seq <= self._seen:
            return
        self._seen = change.seq
        if not self._lease_ids or change.lease in self._lease_ids:
            yield change

    def after_refusal(self, answer: Answer) -> float:
        """Give the pause before the next connection, in seconds; raises ProblemError for a lasting no."""
        pause_s = self._attempts.after_answer(answer)
        if pause_s is None:
            answer.values()
            raise BadAnswer(f"whoever answers is no gateway: status {answer.status} for a stream")
        return pause_s

    def after_failure(self, failure: Unreachable) -> float:
        """Give the pause before the next connection, in seconds; raises the failure when patience is over."""
        return self._attempts.after_failure(failure)


def stream_ended(url: str) -> Unreachable:
    """Say that a stream, which has no end, was ended by the other side."""
    return Lost(url, "the connection was closed")
