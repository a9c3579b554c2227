"""The libvirt driver: a site whose machines are domains."""

from leasehold.service.drivers.kept.driver import KeptDriver
from leasehold.service.drivers.kept.ledger import LEDGER, Ledger
from leasehold.service.drivers.libvirt.moving import DATA_URI, PEER_URI, Moving
from leasehold.service.drivers.libvirt.options import LibvirtOptions, read_options
from leasehold.service.drivers.libvirt.world import LibvirtWorld
from leasehold.service.drivers.setup import DriverSetup


def libvirt_driver(setup: DriverSetup) -> KeptDriver:
    """Make the driver of a site under libvirt, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a ledger that cannot
    be used.
    """
    options = read_options(setup.options)
    ledger = Ledger(setup.folder / LEDGER)
    ledger.tell_neighbours(_about(options))
    world = LibvirtWorld(options, setup.site, Moving(setup.folder))
    return KeptDriver(setup, ledger, world, options.habits)


def _about(options: LibvirtOptions) -> dict[str, str]:
    about = {PEER_URI: options.peer_uri, DATA_URI: options.data_uri}
    return {key: uri for key, uri in about.items() if uri is not None}
