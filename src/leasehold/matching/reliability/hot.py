"""Hot copies: all nodes run along, and some of them have to last (Thamarai Selvi et al., section 5)."""

from collections.abc import Iterable, Sequence

from leasehold.matching.reliability.lifetimes import Lifetime, require_k_of_m


def at_least(needed: int, survivals: Sequence[float]) -> float:
    """How likely do at least ``needed`` of these nodes survive?

    Rule: the distribution of the number that survive, node by node; for one that is needed ``1 - prod(1 -
    p_i)``, for like nodes ``sum over i from k to m of B(m, i) p^i (1 - p)^(m - i)``, as printed. Nodes may
    differ.
    Source: Thamarai Selvi et al., section 5, both models.

    Raises InvalidField for more nodes than there are, or none.
    """
    require_k_of_m(needed, len(survivals))
    return sum(count_of_survivors(survivals)[needed:])


def count_of_survivors(survivals: Iterable[float]) -> list[float]:
    """Give the probability that just 0, 1, 2, ... of these nodes survive."""
    counts = [1.0]
    for p in survivals:
        stay = [*(count * (1 - p) for count in counts), 0.0]
        counts = [less + more for less, more in zip(stay, [0.0, *(count * p for count in counts)], strict=True)]
    return counts


def hot(needed: int, lifetimes: Sequence[Lifetime], time_s: float) -> float:
    """How likely have at least ``needed`` nodes that all run lasted for a time? Raises InvalidField."""
    return at_least(needed, [lifetime.survival(time_s) for lifetime in lifetimes])
