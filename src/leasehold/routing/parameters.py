"""The parameters of a routing policy, in its name: ``selective:refused_above=0.22,price=0.005``.

A policy that has some names their dataclass, and takes one as the second argument of its constructor.
"""

from collections.abc import Callable
from dataclasses import fields
from random import Random
from typing import Any

from leasehold.model.description import described_fields
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.numbers import ABOVE_0, number_above_0
from leasehold.routing.policy import RoutingPolicy

PolicyMaker = Callable[[Random], RoutingPolicy]
"""Makes a routing policy that draws from these random numbers."""


def parted(name: str) -> tuple[str, str]:
    """Part a name from what is said of its parameters, "" for nothing."""
    bare, colon, last = name.rpartition(":")
    return (bare, last) if colon and "=" in last else (name, "")


def policy_maker(kind: type[RoutingPolicy], written: str = "") -> PolicyMaker:
    """Give what makes policies of this kind; ``written`` as in ``price=0.005,wait=0.8``.

    Raises UnknownName or InvalidField for what is no parameter of it, or no number above 0.
    """
    if not written:
        return kind
    if kind.parameters is None:
        raise InvalidField(f"parameters of {kind.name}", written, f"none: {kind.name} has no parameters")
    make: Callable[..., RoutingPolicy] = kind
    values = kind.parameters(**_read(kind, written))
    return lambda random: make(random, values)


def _read(kind: type[RoutingPolicy], written: str) -> dict[str, float]:
    """Read ``KEY=NUMBER,KEY=NUMBER``."""
    known, found = usual_values(kind), dict[str, float]()
    for part in written.split(","):
        key, _, text = part.partition("=")
        if key not in known:
            raise UnknownName(f"parameter of {kind.name}", key, known)
        if key in found:
            raise InvalidField(f"parameters of {kind.name}", written, f"{key} once")
        found[key] = _number(key, text)
    return found


def _number(key: str, text: str) -> float:
    value = number_above_0(text)
    if value is None:
        raise InvalidField(key, f"{key}={text}", f"{key}=NUMBER, {ABOVE_0}")
    return value


def usual_values(kind: type[RoutingPolicy]) -> dict[str, Any]:
    """Give the parameters of a policy with their usual values."""
    return {} if kind.parameters is None else {each.name: each.default for each in fields(kind.parameters)}


def meanings(kind: type[RoutingPolicy]) -> dict[str, str]:
    """Say what each parameter is, as the docstring of the dataclass, or of one that it extends, says it."""
    said: dict[str, str] = {}
    for each in () if kind.parameters is None else kind.parameters.__mro__:
        said = described_fields(each.__doc__) | said
    return {key: said.get(key, "") for key in usual_values(kind)}
