"""When to look for cycles of references where very many records are made, which have none.

Python looks as soon as there are so many objects more than before. It does not while a hundred thousand
records are made in the place of others, and whoever makes a few more then has everybody wait until all of
them have been looked through.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MOST_UNSEEN = 2_000
"""Records that may have taken the place of others unseen; of a node that is some 16 objects."""


@contextmanager
def collecting_no_garbage() -> Iterator[None]:
    """Make many records at once, without being looked through again and again meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Replacing:
    """Counts records that took the place of others, and looks through them before they are too many."""

    def __init__(self) -> None:
        self._unseen = 0

    def replaced(self, records: int) -> None:
        """Note that so many records are new."""
        self._unseen += records
        if self._unseen >= MOST_UNSEEN:
            self._unseen = 0
            gc.collect(1)
