"""A process of its own that claims the store at the URL given to it, and writes until it is killed.

It says on standard output what it has done: "claimed" or "refused", then for each transaction what is
written in it, and "N kept" when transaction N was committed. Each transaction N makes ten leases, with three
lines of the journal and one order for each, and sets the memory "last" to N.
"""

import sys

from leasehold.model.errors import InputError
from leasehold.service.store.rows import JOURNAL, LEASES, ORDERS
from leasehold.service.store.store import Store, open_store
from leasehold.testing.rows import journal_row, lease_row, order_row

LEASES_EACH = 10
LINES = 3


def main(url: str) -> None:
    with open_store(url) as store:
        try:
            store.acquire_writer_lock()
        except InputError:
            say("refused")
            return
        say("claimed")
        write_for_ever(store)


def write_for_ever(store: Store) -> None:
    number = int(store.snapshots().get("last", 0))
    while sys.stdin.readline():  # the test says when to go on
        number += 1
        write(store, number)
        say(f"{number} kept")


def write(store: Store, number: int) -> None:
    leases = range((number - 1) * LEASES_EACH, number * LEASES_EACH)
    with store.writing() as batch:
        batch.upsert(LEASES, [lease_row(lease) for lease in leases])
        say("leases")
        batch.insert(JOURNAL, [journal_row(lease * LINES + n, lease) for lease in leases for n in range(1, LINES + 1)])
        say("journal")
        batch.insert(ORDERS, [order_row(lease) for lease in leases])
        batch.set_snapshot("last", str(number))
        say("all")


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
