"""The numbered messages to each endpoint, and what came from there: at least once, and taken in once."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from leasehold.model.errors import InvalidField
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.store.reading import Reading
from leasehold.service.store.rows import ENDPOINTS, MESSAGES, EndpointRow, MessageRow

T = TypeVar("T")
NumberedText = tuple[int, str]
"""A message: its number, and what it says as JSON."""


class MessageLog:
    """Numbers what is sent to each endpoint, and knows what came last from there."""

    def __init__(self, store: Reading, unit: UnitOfWork) -> None:
        self._store = store
        self._unit = unit
        self._endpoints: dict[str, EndpointRow] = {}
        self._acknowledged: dict[str, int] = {}

    def send(self, endpoint: str, body: dict[str, Any], now_ms: int) -> int:
        """Write a message, and give its number; it goes out once it is in the store."""
        state = self._of(endpoint)
        state.last_sent_seq += 1
        self._unit.put(ENDPOINTS, state)
        self._unit.add(MESSAGES, MessageRow(endpoint, state.last_sent_seq, json.dumps(body), now_ms))
        return state.last_sent_seq

    def has_arrived(self, endpoint: str, number: int) -> bool:
        """Whether a message was acknowledged since this engine began."""
        return number <= self._acknowledged.get(endpoint, 0)

    def take_in(self, endpoint: str, messages: Iterable[NumberedText], read: Callable[[Any], T]) -> list[T]:
        """Take in, as ``read`` understands them, those that follow the last one; others are passed over.

        Raises InvalidField where one in between is missing, and what ``read`` raises: then none is taken in.
        """
        state = self._of(endpoint)
        new = [(number, text) for number, text in messages if number > state.last_received_seq]
        for expected, (number, _) in enumerate(new, state.last_received_seq + 1):
            if number != expected:
                raise InvalidField("messages", number, f"number {expected} from {endpoint}")
        understood = [read(json.loads(text)) for _, text in new]
        if new:
            state.last_received_seq = new[-1][0]
            self._unit.put(ENDPOINTS, state)
        return understood

    def acknowledge(self, endpoint: str, up_to: int) -> None:
        """The endpoint has taken in the messages up to this one.

        Raises InvalidField for one that was never sent: then one of the two has forgotten something, and
        whatever is sent next would be taken for what is known already.
        """
        last = self._of(endpoint).last_sent_seq
        if up_to > last:
            expected = f"at most {last}, the last message to {endpoint}: was an older store put back?"
            raise InvalidField("acknowledged", up_to, expected)
        if up_to > self._acknowledged.get(endpoint, 0):
            self._unit.acknowledged[endpoint] = self._acknowledged[endpoint] = up_to

    def forget(self, endpoint: str) -> None:
        """Forget all messages and numbers of an endpoint; another under its name begins with number 1."""
        for table in (MESSAGES, ENDPOINTS):
            self._unit.remove(table, endpoint=endpoint)
        self._unit.acknowledged.pop(endpoint, None)
        self._acknowledged.pop(endpoint, None)
        self._endpoints[endpoint] = EndpointRow(endpoint, 0, 0)

    def _of(self, endpoint: str) -> EndpointRow:
        if endpoint not in self._endpoints:
            self._endpoints[endpoint] = EndpointRow(endpoint, *self._store.message_numbers(endpoint))
        return self._endpoints[endpoint]
