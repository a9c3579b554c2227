"""What can the configuration say to a site under libvirt?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET

from leasehold.configuration.declaration import Choice, FilePath, Flag, Seconds, Table, Text, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.images import ImageSoftware, ImageTable, SoftwareTexts
from leasehold.service.drivers.login import LOCAL, login_address_of
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler.loop import ReconcilerSettings

CONSOLES = "/var/log/libvirt/qemu"
"""Is on every host of libvirt's QEMU, and QEMU may write there."""

_OF_QEMU = ("kvm", "qemu")
_TYPES = (*_OF_QEMU, "test")


class _Template(FilePath):
    """A file with libvirt's description of a domain."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the path, of a file that can be read."""
        text = keys.text(name, default)
        if text is default:
            return default
        path = Path(str(text))
        _check_template(path, keys.where(name))
        return path


def _check_template(path: Path, field: str) -> None:
    try:
        is_domain = ET.parse(path).getroot().tag == "domain"  # noqa: S314 - the operator's own file
    except (OSError, ET.ParseError):
        is_domain = False
    if not is_domain:
        raise InvalidField(field, str(path), "a file with libvirt's description of a domain")


@dataclass(frozen=True, slots=True)
class LibvirtOptions:
    """The options of one site."""

    uri: Annotated[str, Text("URI of libvirt, from this machine")] = "qemu:///system"
    peer_uri: Annotated[
        str | None,
        Text(
            "URI of libvirt, from other hosts; without it machines cannot be migrated",
            more=' (such as `"qemu+tls://rack-a.example.org/system"`)',
        ),
    ] = None
    data_uri: Annotated[
        str | None,
        Text(
            "URI to which other hosts send memory", more=', such as `"tcp://10.0.0.7"`', unset="the choice of libvirt"
        ),
    ] = None
    template: Annotated[
        Path | None,
        _Template(
            "file with the domain XML",
            more=", instead of the keys down to `network`",
        ),
    ] = None
    type: Annotated[
        str,
        Choice(
            "hypervisor: kvm, or qemu without a usable KVM",
            more="; `test` is the mock host of libvirt",
            of=_TYPES,
        ),
    ] = "kvm"
    machine: Annotated[
        str | None, Text("machine type of QEMU", more=', such as `"q35"`', unset="the choice of libvirt")
    ] = None
    vcpus: Annotated[int, Whole("CPUs of each machine")] = 1
    cpu_percent: Annotated[int | None, Whole("maximum CPU time, where 100 is one whole CPU", unset="all")] = None
    kernel: Annotated[str | None, Text("kernel to boot directly, on the host")] = None
    initrd: Annotated[str | None, Text("initial ramdisk of the kernel")] = None
    cmdline: Annotated[str | None, Text("command line of the kernel")] = None
    network: Annotated[str | None, Text("libvirt network of the machines")] = None
    least_memory_mib: Annotated[int, Whole("memory that the image needs to boot; smaller requests get this much")] = 1
    pool: Annotated[str, Text("storage pool of `volume`, and of its overlays")] = "default"
    volume: Annotated[str | None, Text("volume over which each machine gets an overlay")] = None
    images: Annotated[
        Mapping[str, str],
        ImageTable(
            "volumes of the pool, or with `template` domain XML files, of the images that a lease may name",
            more=', such as `{ debian-12 = "debian-12.qcow2" }`',
        ),
    ] = field(default_factory=dict)
    software: Annotated[
        frozenset[tuple[str, str]],
        SoftwareTexts("software in machines without an image", more=', such as `["gcc 12.2", "apptainer"]`'),
    ] = frozenset()
    image_software: Annotated[
        Mapping[str, frozenset[tuple[str, str]]],
        ImageSoftware("software in `images`", more=', such as `{ debian-12 = ["gcc 12.2"] }`'),
    ] = field(default_factory=dict)
    consoles: Annotated[str, Text("folder of consoles on the host")] = CONSOLES
    guest_agent: Annotated[bool, Flag("machines have the QEMU guest agent, which runs commands")] = False
    login_user: Annotated[
        str | None,
        Text(
            "user of the guest as whom the user of a lease logs in by a key; needs `guest_agent`, and QEMU",
            unset="nobody logs in",
        ),
    ] = None
    login_address: Annotated[str, login_address_of("the host")] = LOCAL
    keep_outputs: Annotated[int, Whole("closed leases whose output files are stored", least=0)] = 1_000
    suspend: Annotated[bool, Flag("memory may be saved on the host")] = True
    poll_ms: Annotated[int, Seconds("polling interval while no orders are open", least_ms=50)] = 1_000
    boot_within_ms: Annotated[
        int,
        Seconds("time for machines to come up, after which the lease has failed", least_ms=1_000),
    ] = 300_000

    @property
    def able(self) -> Capabilities:
        """What its machines can do."""
        return Capabilities(
            suspend=self.suspend,
            migrate=self.peer_uri is not None,
            commands=self.guest_agent,
            images=tuple(sorted(self.images)),
            login=self.login_user is not None,
        )

    @property
    def settings(self) -> ReconcilerSettings:
        """How its machines are looked after."""
        return ReconcilerSettings(self.poll_ms / 1000, self.boot_within_ms)

    def of_image(self, image: str) -> "LibvirtOptions":
        """Give the options for machines of this image, "" for the default: its volume, or its description."""
        if not image:
            return self
        named = self.images[image]
        return replace(self, template=Path(named)) if self.template else replace(self, volume=named)


OPTIONS = Table(LibvirtOptions, "Machines of the site under libvirt.")


def read_options(options: Mapping[str, object]) -> LibvirtOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    read = OPTIONS.read(Keys(options))
    if read.kernel is None and (read.initrd or read.cmdline):
        raise InvalidField("initrd" if read.initrd else "cmdline", read.initrd or read.cmdline, "kernel beside it")
    if read.login_user is not None and not (read.guest_agent and read.type in _OF_QEMU):
        missing = (
            "guest_agent = true beside it" if read.type in _OF_QEMU else "machines of QEMU, of the type kvm or qemu"
        )
        raise InvalidField("login_user", read.login_user, missing)
    for name in read.image_software.keys() - read.images.keys():
        raise InvalidField("image_software", name, "the name of one of images")
    for name, file in read.images.items() if read.template else ():
        _check_template(Path(file), f"images.{name}")
    return read
