"""The EC2 enactor: a site whose machines are a cloud's."""

from leasehold.service.enactors.ec2.options import read_options
from leasehold.service.enactors.ec2.world import Ec2World
from leasehold.service.enactors.kept.enactor import KeptEnactor
from leasehold.service.enactors.kept.ledger import LEDGER, Ledger
from leasehold.service.enactors.setup import EnactorSetup


def ec2_enactor(setup: EnactorSetup) -> KeptEnactor:
    """Make the enactor of a site in EC2, or find its machines again.

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
    return KeptEnactor(setup, ledger, world, options.habits)
