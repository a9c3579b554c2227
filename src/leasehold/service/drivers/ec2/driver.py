"""The EC2 driver: a site whose machines are a cloud's."""

from leasehold.service.drivers.ec2.options import read_options
from leasehold.service.drivers.ec2.world import Ec2Provider
from leasehold.service.drivers.reconciler.driver import ReconciledDriver
from leasehold.service.drivers.setup import DriverSetup


def ec2_driver(setup: DriverSetup) -> ReconciledDriver:
    """Make the driver of a site in EC2, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """
    options = read_options(setup.options)
    return ReconciledDriver(setup, lambda store: Ec2Provider(options, setup.site, store.identity), options.settings)
