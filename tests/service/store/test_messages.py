"""Messages: kept until they are acknowledged; their numbers stay."""

from leasehold.service.store.rows import ENDPOINTS, MESSAGES, EndpointRow
from leasehold.service.store.store import Store
from leasehold.testing.rows import message_row


def test_messages_are_kept_until_they_are_acknowledged(store: Store) -> None:
    messages = [message_row(seq) for seq in range(1, 6)]
    with store.writing() as batch:
        batch.insert(MESSAGES, [*messages, message_row(1, "b")])
    assert store.messages("a", 1, 2) == messages[1:3]
    with store.writing() as batch:
        batch.acknowledge_messages("a", 3)
    assert store.messages("a", 0, 10) == messages[3:]
    assert store.messages("b", 0, 10) == [message_row(1, "b")]


def test_the_exchange_goes_on_where_it_was_though_all_messages_are_gone(store: Store) -> None:
    with store.writing() as batch:
        batch.insert(MESSAGES, [message_row(1), message_row(2)])
        batch.upsert(ENDPOINTS, [EndpointRow("a", 2, 7)])
        batch.acknowledge_messages("a", 2)
    assert store.messages("a", 0, 10) == []
    assert store.message_numbers("a") == (2, 7)
    assert store.message_numbers("b") == (0, 0)
