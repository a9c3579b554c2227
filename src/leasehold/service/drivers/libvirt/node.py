"""The host of a site as the one node that jobs see of it.

What is free there is what no domain has been given, whoever's it is: what is lent is not free, whether
or not they are used.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import libvirt

from leasehold.service.drivers.facts import ImageFacts, NodeFacts, not_one_per_node, too_few
from leasehold.service.drivers.libvirt.domain import default_vcpus, read_name
from leasehold.service.drivers.libvirt.options import LibvirtOptions
from leasehold.service.drivers.protocol import Order, Problem
from leasehold.service.drivers.reconciler.provider import MachineInstance

_KIB_A_MIB = 1 << 10
_MIB = 1 << 20


def describe_node(
    connection: Any,  # noqa: ANN401 - libvirt-python carries no types
    name: str,
    site: str,
    options: LibvirtOptions,
    instances: Sequence[MachineInstance],
) -> NodeFacts:
    """Describe the host; ``instances`` are those of the site, to which room there is promised."""
    _, memory_mib, cores, mhz, *_ = connection.getInfo()
    others = [one for one in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE) if _is_other(one, site)]
    given = [domain.info() for domain in others]
    lent_cores = sum(vcpus for _, _, _, vcpus, _ in given) + sum(
        one.room_vms * (one.cores or default_vcpus(options.of_image(one.image))) for one in instances
    )
    lent_mib = sum(most_kib // _KIB_A_MIB for _, most_kib, *_ in given) + sum(
        one.room_vms * max(one.memory_mib, options.least_memory_mib) for one in instances
    )
    disk_mib, free_disk_mib = _disk_mib(connection, options)
    return NodeFacts(
        name=name,
        cores=cores,
        memory_mib=memory_mib,
        disk_mib=disk_mib,
        free_cores=max(0, cores - lent_cores),
        free_memory_mib=max(0, memory_mib - lent_mib),
        free_disk_mib=free_disk_mib,
        cpu_mhz=mhz,
        vm_cores=default_vcpus(options),
        software=options.software,
        is_host=bool(options.image_software),
    )


def describe_images(connection: Any, options: LibvirtOptions) -> list[ImageFacts]:  # noqa: ANN401 - as above
    """Describe the images of which it is known what is in them."""
    pool = None if options.template else connection.storagePoolLookupByName(options.pool)
    described: list[ImageFacts] = []
    for name, software in options.image_software.items():
        size_bytes = 0 if pool is None else pool.storageVolLookupByName(options.images[name]).info()[2]
        least_mib = options.least_memory_mib
        described.append(ImageFacts(name=name, software=software, size_bytes=size_bytes, least_memory_mib=least_mib))
    return described


def _is_other(domain: Any, site: str) -> bool:  # noqa: ANN401 - as above
    return read_name(domain.name(), site) is None


def _disk_mib(connection: Any, options: LibvirtOptions) -> tuple[int, int]:  # noqa: ANN401 - as above
    """Give the size of the pool, and what is free of it; machines without a volume have no disk."""
    if options.volume is None and not options.images:
        return 0, 0
    _, capacity, _, available = connection.storagePoolLookupByName(options.pool).info()
    return capacity // _MIB, available // _MIB


def without_room(node: NodeFacts) -> NodeFacts:
    """Say of a node that nothing of it is free, as no slot is."""
    return replace(node, free_cores=0, free_memory_mib=0, free_disk_mib=0)


def does_not_fit(order: Order, node: NodeFacts, options: LibvirtOptions) -> Problem | None:
    """Say why the machines of an order that wants a node, or cores, cannot be on this one; None where they can."""
    wanted = order.constraints
    if set(wanted.nodes) - {node.name}:
        return Problem(f"machines are made on {node.name} here, not on {', '.join(wanted.nodes)}", again=False)
    cores = order.vms * (wanted.cores or default_vcpus(options))
    memory_mib = order.vms * max(order.memory_mib, options.least_memory_mib)
    problem = (
        not_one_per_node(wanted, order.vms)
        or too_few(node, "cores", cores, node.cores, node.free_cores)
        or too_few(node, "MiB of memory", memory_mib, node.memory_mib, node.free_memory_mib)
    )
    return replace(problem, nodes=wanted.nodes) if problem is not None and problem.full else problem
