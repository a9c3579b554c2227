"""What can the configuration say to a site under libvirt?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET

from leasehold.configuration.declaration import Choice, FilePath, Flag, Seconds, Table, Text, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.reconciler.loop import ReconcilerSettings

CONSOLES = "/var/log/libvirt/qemu"
"""Is on every host of libvirt's QEMU, and QEMU may write there."""

_TYPES = ("kvm", "qemu", "test")


class _Template(FilePath):
    """A file with libvirt's description of a domain."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the path, of a file that can be read."""
        text = keys.text(name, default)
        if text is default:
            return default
        path = str(text)
        try:
            is_domain = ET.parse(path).getroot().tag == "domain"  # noqa: S314 - the operator's own file
        except (OSError, ET.ParseError):
            is_domain = False
        if not is_domain:
            raise InvalidField(keys.where(name), path, "a file with libvirt's description of a domain")
        return Path(path)


@dataclass(frozen=True, slots=True)
class LibvirtOptions:
    """The options of one site."""

    uri: Annotated[str, Text("where libvirt is, as this machine reaches it")] = "qemu:///system"
    peer_uri: Annotated[
        str | None,
        Text(
            "the same, as other hosts reach it; without it machines cannot be moved",
            more=' (such as `"qemu+tls://rack-a.example.org/system"`)',
        ),
    ] = None
    data_uri: Annotated[
        str | None,
        Text("where other hosts send memory to", more=', as `"tcp://10.0.0.7"`', unset="libvirt's choice"),
    ] = None
    template: Annotated[
        Path | None,
        _Template(
            "a file with a description of a domain",
            more=", in place of the keys down to `network`",
        ),
    ] = None
    type: Annotated[
        str,
        Choice(
            "what drives machines: kvm, or qemu where there is no usable KVM",
            more="; `test` is libvirt's own pretended host",
            of=_TYPES,
        ),
    ] = "kvm"
    machine: Annotated[
        str | None, Text("which machine QEMU is to be", more=', as `"q35"`', unset="libvirt's choice")
    ] = None
    vcpus: Annotated[int, Whole("CPUs of each machine")] = 1
    cpu_percent: Annotated[
        int | None, Whole("the most that it gets of them, where 100 is one whole CPU", unset="all")
    ] = None
    kernel: Annotated[str | None, Text("a kernel to boot directly, on the host")] = None
    initrd: Annotated[str | None, Text("its initial ramdisk")] = None
    cmdline: Annotated[str | None, Text("and its command line")] = None
    network: Annotated[str | None, Text("libvirt's network that machines are in")] = None
    least_memory_mib: Annotated[int, Whole("what the image needs to boot; who asks for less gets that much")] = 1
    pool: Annotated[str, Text("the storage pool of `volume`, and of the layers over it")] = "default"
    volume: Annotated[str | None, Text("the volume that each machine gets a layer over")] = None
    consoles: Annotated[str, Text("the folder on the host that consoles are kept in")] = CONSOLES
    guest_agent: Annotated[bool, Flag("whether machines have QEMU's guest agent, which runs commands")] = False
    suspend: Annotated[bool, Flag("whether memory may be saved on the host")] = True
    poll_ms: Annotated[int, Seconds("how often to look while nothing is ordered", least_ms=50)] = 1_000
    boot_within_ms: Annotated[
        int,
        Seconds("how long machines may take to come up, until the lease has failed", least_ms=1_000),
    ] = 300_000

    @property
    def settings(self) -> ReconcilerSettings:
        """How its machines are looked after."""
        return ReconcilerSettings(self.poll_ms / 1000, self.boot_within_ms)


OPTIONS = Table(LibvirtOptions, "Its machines, under libvirt.")


def read_options(options: Mapping[str, object]) -> LibvirtOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    read = OPTIONS.read(Keys(options))
    if read.kernel is None and (read.initrd or read.cmdline):
        raise InvalidField("initrd" if read.initrd else "cmdline", read.initrd or read.cmdline, "kernel beside it")
    return read
