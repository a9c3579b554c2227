"""Which kinds of enactors are there? Those of Leasehold in a literal dict, other people's by entry point."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.enactors.emulated.enactor import EmulatedEnactor
from leasehold.service.enactors.protocol import Enactor
from leasehold.service.enactors.setup import EnactorSetup

ENTRY_POINT_GROUP = "leasehold.enactors"

EnactorFactory = Callable[[EnactorSetup], Enactor]
"""Makes the enactor of one site, or finds its machines again where they went on without us."""


def _ec2(setup: EnactorSetup) -> Enactor:
    with _extra("ec2", "boto3", "cloud"):
        from leasehold.service.enactors.ec2.enactor import ec2_enactor  # noqa: PLC0415 - an extra
    return ec2_enactor(setup)


def _qemu(setup: EnactorSetup) -> Enactor:
    from leasehold.service.enactors.qemu.enactor import QemuEnactor  # noqa: PLC0415 - for who has QEMU

    return QemuEnactor(setup)


def _slurm(setup: EnactorSetup) -> Enactor:
    from leasehold.service.enactors.slurm.enactor import SlurmEnactor  # noqa: PLC0415 - for who has a Slurm

    return SlurmEnactor(setup)


def _libvirt(setup: EnactorSetup) -> Enactor:
    with _extra("libvirt", "libvirt", "libvirt"):
        from leasehold.service.enactors.libvirt.enactor import libvirt_enactor  # noqa: PLC0415 - an extra
    return libvirt_enactor(setup)


@contextmanager
def _extra(kind: str, module: str, extra: str) -> Iterator[None]:
    """Say which extra a kind of machines needs, where its library is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise InvalidField("enactor", kind, f"its library: pip install 'leasehold[{extra}]'") from error


ENACTORS: dict[str, EnactorFactory] = {
    "emulated": EmulatedEnactor,
    "qemu": _qemu,
    "slurm": _slurm,
    "ec2": _ec2,
    "libvirt": _libvirt,
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


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Check what a kind is told before any is made, where its factory has a ``check_options`` for it.

    Raises as `enactor` does.
    """
    check = getattr(enactor_factory(kind), "check_options", None)
    if check is not None:
        check(options)


def enactor(kind: str, setup: EnactorSetup) -> Enactor:
    """Make the enactor of one site.

    Raises UnknownName for a kind that is not there, InvalidField for an option that makes no sense (the field
    is the option's key), InputError where its files cannot be used.
    """
    return enactor_factory(kind)(setup)
