"""The one node of a site of virtual machines: the computer that they are built on."""

from pathlib import Path

from leasehold.jobs.job import Fault
from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.drivers.qemu.command_line import KVM
from leasehold.service.drivers.qemu.hardware import could_have_kvm, machine_type
from leasehold.service.drivers.qemu.host import look_at_host
from leasehold.service.drivers.qemu.images.catalogue import Catalogue
from leasehold.service.drivers.qemu.images.tools import find_tool
from leasehold.service.drivers.qemu.options import QemuOptions


def node_facts(machines: Path, options: QemuOptions, catalogue: Catalogue, free_slots: int) -> NodeFacts:
    """Say what there is and what is free; nothing is where no slot is, however much there may be."""
    host = look_at_host(machines)
    has_room, problem = free_slots > 0, _problem(options, catalogue)
    return NodeFacts(
        name=host.name,
        cores=host.cores,
        memory_mib=host.memory_mib,
        disk_mib=host.disk_mib,
        free_cores=host.free_cores if has_room else 0,
        free_memory_mib=host.free_memory_mib if has_room else 0,
        free_disk_mib=host.free_disk_mib if has_room else 0,
        cpu_mhz=host.cpu_mhz,
        is_host=True,
        runs=False,
        problem=problem,
        fault=str(Fault.SERVICE_STOPPED) if problem else "",
    )


def _problem(options: QemuOptions, catalogue: Catalogue) -> str:
    """Say why no machine can be made here now; "" where one can."""
    if find_tool("qemu-img") is None:
        return "there is no qemu-img, which makes the disks of machines: install qemu-utils"
    if options.accelerator == KVM and not could_have_kvm():
        return "machines are to use KVM, and there is none here"
    try:
        machine_type()
        catalogue.usual()
    except LeaseholdError as error:
        return str(error)
    return ""
