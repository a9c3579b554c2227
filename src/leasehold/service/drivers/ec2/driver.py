"""The EC2 driver: a site whose machines are a cloud's."""

from leasehold.service.drivers.ec2.options import read_options
from leasehold.service.drivers.ec2.world import Ec2World
from leasehold.service.drivers.kept.driver import KeptDriver
from leasehold.service.drivers.kept.ledger import LEDGER, Ledger
from leasehold.service.drivers.setup import DriverSetup


def ec2_driver(setup: DriverSetup) -> KeptDriver:
    """Make the driver of a site in EC2, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a ledger that cannot
    be used.
    """
    options = read_options(setup.options)
    ledger = Ledger(setup.folder / LEDGER)
    try:
        world = Ec2World(options, setup.site, ledger.identity)
    except BaseException:
        ledger.close()
        raise
    return KeptDriver(setup, ledger, world, options.habits)
