"""How is a machine described to libvirt, and what is it called? From the operator's template, or from the options.

By the names of its domains a site finds its machines again.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from leasehold.service.drivers.bounds import LATEST_MS, whole_in
from leasehold.service.drivers.libvirt.options import LibvirtOptions
from leasehold.service.drivers.login import closed_network
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.provider import MachineInstance

# --- names ------------------------------------------------------------------------------------------------------------

_NUMBERS = re.compile(r"([0-9]{1,15})-([0-9]{1,15})-([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Name:
    """A domain of ours: machine number ``number`` of those that came with one generation of a lease."""

    site: str
    key: Key
    number: int

    def __str__(self) -> str:
        """Write it as libvirt has it."""
        lease_id, generation = self.key
        return f"leasehold-{self.site}-{lease_id}-{generation}-{self.number}"


def read_name(text: str, site: str) -> Name | None:
    """Read the name of a domain; None where it is not one of this site."""
    prefix = f"leasehold-{site}-"
    found = _NUMBERS.fullmatch(text.removeprefix(prefix)) if text.startswith(prefix) else None
    return Name(site, (int(found[1]), int(found[2])), int(found[3])) if found else None


def names_of(site: str, instance: MachineInstance) -> list[Name]:
    """Name all machines of an instance."""
    return [Name(site, instance.key, number) for number in range(instance.vms)]


# --- descriptions -----------------------------------------------------------------------------------------------------

_PERIOD_US = 100_000
_US_PER_PERCENT = _PERIOD_US // 100
AGENT_CHANNEL = "org.qemu.guest_agent.0"
LOGIN_NETWORK = "leasehold-login"
"""The name in QEMU of the network by which the user of a lease gets in."""
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
_WAY_IN = (
    *("-netdev", closed_network(LOGIN_NETWORK)),
    # as JSON, for QEMU gives such a device a slot after those to which libvirt has given one
    *("-device", json.dumps({"driver": "virtio-net-pci", "netdev": LOGIN_NETWORK, "romfile": ""})),
)

ET.register_namespace("qemu", _QEMU)


def default_vcpus(options: LibvirtOptions) -> int:
    """Say how many CPUs a machine has whose job sets none."""
    if options.template is None:
        return options.vcpus
    return whole_in(_from_template(options).findtext("vcpu"), 1, LATEST_MS) or 1


def describe(
    options: LibvirtOptions, name: str, memory_mib: int, disk: str | None, *, cores: int = 0, lets_in: bool = False
) -> str:
    """Describe a machine; ``disk`` is the path of its layer over the volume, if it has one.

    ``cores``: of the machine, where its job sets them; a topology in the template would contradict them, and goes.
    ``lets_in``: whether a port of the host can lead to its server of SSH.
    """
    domain = _from_template(options) if options.template else _from_options(options)
    _put(domain, "name", name)
    _drop(domain, ("uuid", "currentMemory"))
    _put(domain, "memory", str(memory_mib)).set("unit", "MiB")
    if cores:
        _put(domain, "vcpu", str(cores))
        for cpu in domain.findall("cpu"):
            _drop(cpu, ("topology", "numa"))
    devices = domain.find("devices")
    if devices is None:
        devices = ET.SubElement(domain, "devices")
    if disk is not None:
        devices.append(_disk(disk))
    if devices.find("serial") is None:
        devices.append(_console(f"{options.consoles}/{name}.console"))
    if options.guest_agent and not _has_agent(devices):
        devices.append(_agent())
    if lets_in:
        _add_way_in(domain)
    return ET.tostring(domain, encoding="unicode")


def console_path(description: str) -> str | None:
    """Find the file on the host that a machine's console goes to."""
    source = ET.fromstring(description).find("devices/serial[@type='file']/source")  # noqa: S314 - libvirt's own
    return None if source is None else source.get("path")


def disk_paths(description: str) -> list[str]:
    """Find the files on the host that a machine's disks are in."""
    disks = ET.fromstring(description).iterfind("devices/disk[@device='disk']/source")  # noqa: S314 - as above
    return [path for disk in disks if (path := disk.get("file"))]


def is_interpreted(description: str) -> bool:
    """Whether a machine runs without the help of its host's processor."""
    return ET.fromstring(description).get("type") == "qemu"  # noqa: S314 - as above


def _from_template(options: LibvirtOptions) -> ET.Element:
    assert options.template is not None
    return ET.parse(options.template).getroot()  # noqa: S314 - the operator's own file


def _from_options(options: LibvirtOptions) -> ET.Element:
    domain = ET.Element("domain", type=options.type)
    domain.append(_element("vcpu", str(options.vcpus)))
    domain.append(_boot(options))
    ET.SubElement(ET.SubElement(domain, "features"), "acpi")
    # a reboot would start the command again: that is for the service to decide
    domain.append(_element("on_reboot", "destroy"))
    domain.append(_element("on_crash", "destroy"))
    if options.cpu_percent is not None:
        domain.append(_cpu_limit(options.cpu_percent))
    devices = ET.SubElement(domain, "devices")
    if options.type != "test":
        ET.SubElement(devices, "controller", type="usb", model="none")
        ET.SubElement(devices, "memballoon", model="none")
    if options.network is not None:
        devices.append(_interface(options.network))
    return domain


def _boot(options: LibvirtOptions) -> ET.Element:
    boot = ET.Element("os")
    boot.append(_element("type", "hvm", {"machine": options.machine} if options.machine else {}))
    parts = {"kernel": options.kernel, "initrd": options.initrd, "cmdline": options.cmdline}
    boot.extend(_element(tag, text) for tag, text in parts.items() if text is not None)
    return boot


def _cpu_limit(percent: int) -> ET.Element:
    tune = ET.Element("cputune")
    tune.append(_element("period", str(_PERIOD_US)))
    tune.append(_element("quota", str(percent * _US_PER_PERCENT)))
    return tune


def _disk(path: str) -> ET.Element:
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="qcow2", cache="none")
    ET.SubElement(disk, "source", file=path)
    ET.SubElement(disk, "target", dev="vda", bus="virtio")
    return disk


def _console(path: str) -> ET.Element:
    serial = ET.Element("serial", type="file")
    ET.SubElement(serial, "source", path=path, append="on")  # what was written before it was saved stays
    return serial


def _agent() -> ET.Element:
    channel = ET.Element("channel", type="unix")
    ET.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    return channel


def _has_agent(devices: ET.Element) -> bool:
    return devices.find(f"channel/target[@name='{AGENT_CHANNEL}']") is not None


def _add_way_in(domain: ET.Element) -> None:
    """Give a machine a network card of QEMU's own network, to which a port of the host can lead.

    libvirt itself has no such card whose guest reaches nothing.
    """
    commandline = domain.find(f"{{{_QEMU}}}commandline")
    if commandline is None:
        commandline = ET.SubElement(domain, f"{{{_QEMU}}}commandline")
    for argument in _WAY_IN:
        ET.SubElement(commandline, f"{{{_QEMU}}}arg", value=argument)


def _interface(network: str) -> ET.Element:
    interface = ET.Element("interface", type="network")
    ET.SubElement(interface, "source", network=network)
    ET.SubElement(interface, "model", type="virtio")
    return interface


def _element(tag: str, text: str, attributes: dict[str, str] | None = None) -> ET.Element:
    element = ET.Element(tag, attributes or {})
    element.text = text
    return element


def _put(domain: ET.Element, tag: str, text: str) -> ET.Element:
    """Set a part, whether or not it was there."""
    _drop(domain, (tag,))
    part = ET.SubElement(domain, tag)
    part.text = text
    return part


def _drop(domain: ET.Element, tags: Iterable[str]) -> None:
    for tag in tags:
        for part in domain.findall(tag):
            domain.remove(part)
