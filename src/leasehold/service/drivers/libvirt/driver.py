"""The libvirt driver: a site whose machines are domains."""

from leasehold.service.drivers.libvirt.moving import DATA_URI, PEER_URI, Moving
from leasehold.service.drivers.libvirt.options import read_options
from leasehold.service.drivers.libvirt.world import LibvirtProvider
from leasehold.service.drivers.reconciler.driver import ReconciledDriver
from leasehold.service.drivers.reconciler.provider import MachineInstance
from leasehold.service.drivers.reconciler.store import InstanceStore
from leasehold.service.drivers.setup import DriverSetup


def libvirt_driver(setup: DriverSetup) -> ReconciledDriver:
    """Make the driver of a site under libvirt, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """
    options = read_options(setup.options)

    def provider(store: InstanceStore[MachineInstance]) -> LibvirtProvider:
        uris = {PEER_URI: options.peer_uri, DATA_URI: options.data_uri}
        store.publish({key: uri for key, uri in uris.items() if uri is not None})
        return LibvirtProvider(options, setup.site, Moving(setup.folder))

    return ReconciledDriver(setup, provider, options.settings)
