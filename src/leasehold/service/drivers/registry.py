"""Which kinds of drivers are there? Those of Leasehold in a literal dict, all others by entry point."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.drivers.emulated.driver import emulated_driver
from leasehold.service.drivers.protocol import Driver, DriverSetup

ENTRY_POINT_GROUP = "leasehold.drivers"

DriverFactory = Callable[[DriverSetup], Driver]
"""Makes the driver of one site, or finds its machines again where they went on without us."""


def _ec2(setup: DriverSetup) -> Driver:
    with _extra("ec2", "boto3", "cloud"):
        from leasehold.service.drivers.ec2.driver import ec2_driver  # noqa: PLC0415 - an extra
    return ec2_driver(setup)


def _qemu(setup: DriverSetup) -> Driver:
    from leasehold.service.drivers.qemu.driver import QemuDriver  # noqa: PLC0415 - only where it is used

    return QemuDriver(setup)


def _slurm(setup: DriverSetup) -> Driver:
    from leasehold.service.drivers.slurm.driver import SlurmDriver  # noqa: PLC0415 - only where it is used

    return SlurmDriver(setup)


def _libvirt(setup: DriverSetup) -> Driver:
    with _extra("libvirt", "libvirt", "libvirt"):
        from leasehold.service.drivers.libvirt.driver import libvirt_driver  # noqa: PLC0415 - an extra
    return libvirt_driver(setup)


def _opennebula(setup: DriverSetup) -> Driver:
    from leasehold.service.drivers.opennebula.driver import opennebula_driver  # noqa: PLC0415 - only where it is used

    return opennebula_driver(setup)


@contextmanager
def _extra(kind: str, module: str, extra: str) -> Iterator[None]:
    """Say which extra a kind of machines needs, where its library is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise InvalidField("driver", kind, f"its library: pip install 'leasehold[{extra}]'") from error


DRIVERS: dict[str, DriverFactory] = {
    "emulated": emulated_driver,
    "qemu": _qemu,
    "slurm": _slurm,
    "ec2": _ec2,
    "libvirt": _libvirt,
    "opennebula": _opennebula,
}


def driver_kinds() -> list[str]:
    """List the names of all kinds, Leasehold's own first."""
    others = sorted(entry_points(group=ENTRY_POINT_GROUP).names - DRIVERS.keys())
    return [*DRIVERS, *others]


def driver_factory(kind: str) -> DriverFactory:
    """Find what makes drivers of this kind; Leasehold's own names cannot be taken by others.

    Raises UnknownName with the nearest name, InvalidField for an entry point that can make nothing.
    """
    if kind in DRIVERS:
        return DRIVERS[kind]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        found = entry_point.load()
        if callable(found):
            factory: DriverFactory = found
            return factory
        raise InvalidField(f"entry point {kind}", entry_point.value, "a callable that takes a DriverSetup")
    raise UnknownName("driver", kind, driver_kinds())


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Check the options of a kind before any is made, where its factory has a ``check_options`` for it.

    Raises as `driver` does.
    """
    check = getattr(driver_factory(kind), "check_options", None)
    if check is not None:
        check(options)


def driver(kind: str, setup: DriverSetup) -> Driver:
    """Make the driver of one site.

    Raises UnknownName for a kind that is not there, InvalidField for an option that makes no sense (the field
    is the option's key), InputError where its files cannot be used.
    """
    return driver_factory(kind)(setup)
