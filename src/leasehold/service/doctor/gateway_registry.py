"""All checks of one gateway. One more is a function of `Subject`, and its line here."""

from collections.abc import Callable, Mapping
from functools import partial

from leasehold.service.doctor import files, keeping, lending, network, slurm_sites, virtual_machines
from leasehold.service.doctor.finding import Finding
from leasehold.service.doctor.registry import Check
from leasehold.service.doctor.subject import Subject

GATEWAY: Mapping[str, Callable[[Subject], list[Finding]]] = {
    "configuration": files.check_configuration,
    "data-folder": files.check_data_folder,
    "token": files.check_token,
    "disk-space": files.check_disk_space,
    "lending": lending.check_lending,
    "port": network.check_port,
    "tls": network.check_tls,
    "issuers": network.check_issuers,
    "store": keeping.check_store,
    "slurm-sites": slurm_sites.check_slurm_sites,
    "virtual-machines": virtual_machines.check_virtual_machines,
}


def checks_of(subject: Subject) -> dict[str, Check]:
    """Give the checks of this gateway."""
    return {name: partial(check, subject) for name, check in GATEWAY.items()}
