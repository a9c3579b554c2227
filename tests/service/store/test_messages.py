"""Messages: kept until they are acknowledged, counted for ever."""

from leasehold.service.store.store import Store
from leasehold.testing.rows import message_row


def test_messages_are_kept_until_they_are_acknowledged(store: Store) -> None:
    messages = [message_row(seq) for seq in range(1, 6)]
    with store.writing() as batch:
        batch.add_messages([*messages, message_row(1, "b")])
    assert store.messages("a", 1, 2) == messages[1:3]
    with store.writing() as batch:
        batch.acknowledge_messages("a", 3)
    assert store.messages("a", 0, 10) == messages[3:]
    assert store.messages("b", 0, 10) == [message_row(1, "b")]


def test_the_exchange_goes_on_where_it_was_though_all_messages_are_gone(store: Store) -> None:
    with store.writing() as batch:
        batch.add_messages([message_row(1), message_row(2)])
        batch.set_received("a", 7)
        batch.acknowledge_messages("a", 2)
    assert store.messages("a", 0, 10) == []
    assert store.mail_state("a") == (2, 7)
    assert store.mail_state("b") == (0, 0)


def test_what_was_received_is_remembered_before_anything_was_sent(store: Store) -> None:
    for seq in (1, 2):
        with store.writing() as batch:
            batch.set_received("a", seq)
    with store.writing() as batch:
        batch.add_messages([message_row(1)])
    assert store.mail_state("a") == (1, 2)


def test_a_correspondent_that_is_forgotten_begins_anew(store: Store) -> None:
    with store.writing() as batch:
        batch.add_messages([message_row(1), message_row(1, "b")])
        batch.set_received("a", 7)
        batch.forget_correspondent("a")
        batch.add_messages([message_row(1, body="again")])
    assert store.messages("a", 0, 10) == [message_row(1, body="again")]
    assert store.mail_state("a") == (1, 0)
    assert store.mail_state("b") == (1, 0)
