"""A dict that trying something out need not copy."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ValueDict(dict[K, V]):
    """A dict that can have very many entries, whose keys and values are numbers, leases, or nouns that never change.

    It behaves as any dict. `leasehold.gateway.snapshot` neither looks into it nor copies it; it notes what is put
    into it or removed from it instead, so that a plan costs the same however many leases are open.
    """

    __slots__ = ()
