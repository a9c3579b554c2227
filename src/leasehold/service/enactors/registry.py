"""Which kinds of enactors are there? Those of Leasehold in a literal dict, other people's by entry point."""

from collections.abc import Callable
from importlib.metadata import entry_points

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.enactors.emulated.enactor import EmulatedEnactor
from leasehold.service.enactors.protocol import Enactor
from leasehold.service.enactors.setup import EnactorSetup

ENTRY_POINT_GROUP = "leasehold.enactors"

EnactorFactory = Callable[[EnactorSetup], Enactor]
"""Makes the enactor of one site, or finds its machines again where they went on without us."""

ENACTORS: dict[str, EnactorFactory] = {
    "emulated": EmulatedEnactor,
}


def enactor_kinds() -> list[str]:
    """List the names of all kinds, Leasehold's own first."""
    others = sorted(entry_points(group=ENTRY_POINT_GROUP).names - ENACTORS.keys())
    return [*ENACTORS, *others]


def enactor_factory(kind: str) -> EnactorFactory:
    """Find what makes enactors of this kind; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that can make nothing.
    """
    if kind in ENACTORS:
        return ENACTORS[kind]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        found = entry_point.load()
        if callable(found):
            factory: EnactorFactory = found
            return factory
        raise InvalidField(f"entry point {kind}", entry_point.value, "a callable that takes an EnactorSetup")
    raise UnknownName("enactor", kind, enactor_kinds())


def enactor(kind: str, setup: EnactorSetup) -> Enactor:
    """Make the enactor of one site.

    Raises UnknownName for a kind that is not there, InvalidField for an option that makes no sense (the field
    is the option's key), InputError where its files cannot be used.
    """
    return enactor_factory(kind)(setup)
