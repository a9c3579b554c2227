"""Messages written and taken in by one engine, until they are in the store."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from leasehold.model.errors import InvalidField
from leasehold.service.store.batch import Batch
from leasehold.service.store.rows import MessageRow
from leasehold.service.store.store import Store

T = TypeVar("T")
Message = tuple[int, str]
"""Its number, and what it says as JSON."""


class Postbox:
    """Numbers what is written to each correspondent, and knows what came last from there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers: dict[str, list[int]] = {}
        self._written: list[MessageRow] = []
        self._received: set[str] = set()
        self._acknowledged: dict[str, int] = {}
        self._known_acknowledged: dict[str, int] = {}
        self._forgotten: set[str] = set()

    def write(self, correspondent: str, body: dict[str, Any], now_ms: int) -> None:
        """Write a message."""
        numbers = self._of(correspondent)
        numbers[0] += 1
        row: MessageRow = MessageRow(
            correspondent=correspondent,
            seq=numbers[0],
            body=json.dumps(body),
            created_ms=now_ms,
        )
        self._written.append(row)

    def take_in(self, correspondent: str, messages: Iterable[Message], read: Callable[[Any], T]) -> list[T]:
        """Take in, as ``read`` understands them, those that follow the last one; others are passed over.

        Raises InvalidField where one in between is missing, and what ``read`` raises: then none is taken in.
        """
        numbers = self._of(correspondent)
        new = [(number, text) for number, text in messages if number > numbers[1]]
        for expected, (number, _) in enumerate(new, numbers[1] + 1):
            if number != expected:
                raise InvalidField("messages", number, f"number {expected} from {correspondent}")
        understood = [read(json.loads(text)) for _, text in new]
        if new:
            numbers[1] = new[-1][0]
            self._received.add(correspondent)
        return understood

    def acknowledged(self, correspondent: str, up_to: int) -> None:
        """The correspondent has taken in the messages up to this one.

        Raises InvalidField for one that was never written: then one of the two has forgotten something, and
        whatever is written next would be taken for what is known already.
        """
        last = self._of(correspondent)[0]
        if up_to > last:
            expected = f"at most {last}, the last message to {correspondent}: was an older store put back?"
            raise InvalidField("acknowledged", up_to, expected)
        if up_to > self._known_acknowledged.get(correspondent, 0):
            self._acknowledged[correspondent] = self._known_acknowledged[correspondent] = up_to

    def forget(self, correspondent: str) -> None:
        """Nobody of this name is there any more; whoever comes under it begins anew."""
        self._written = [row for row in self._written if row.correspondent != correspondent]
        self._received.discard(correspondent)
        self._acknowledged.pop(correspondent, None)
        self._known_acknowledged.pop(correspondent, None)
        self._numbers[correspondent] = [0, 0]
        self._forgotten.add(correspondent)

    def has_news(self) -> bool:
        """Whether there is anything to be written into the store."""
        return bool(self._written or self._received or self._acknowledged or self._forgotten)

    def save(self, batch: Batch) -> None:
        """Write everything into the store."""
        for correspondent in self._forgotten:
            batch.forget_correspondent(correspondent)
        batch.add_messages(self._written)
        for correspondent in self._received:
            batch.set_received(correspondent, self._numbers[correspondent][1])
        for correspondent, up_to in self._acknowledged.items():
            batch.acknowledge_messages(correspondent, up_to)

    def saved(self) -> Sequence[str]:
        """Everything is in the store; returns to whom messages are waiting."""
        correspondents = list(dict.fromkeys(row.correspondent for row in self._written))
        self._written.clear()
        self._received.clear()
        self._acknowledged.clear()
        self._forgotten.clear()
        return correspondents

    def _of(self, correspondent: str) -> list[int]:
        numbers = self._numbers.get(correspondent)
        if numbers is None:
            numbers = self._numbers[correspondent] = list(self._store.mail_state(correspondent))
        return numbers
