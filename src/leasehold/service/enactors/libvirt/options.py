"""What can the configuration say to a site under libvirt?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.enactors.kept.caretaker import Habits

CONSOLES = "/var/log/libvirt/qemu"
"""Is on every host of libvirt's QEMU, and QEMU may write there."""

_LEAST_POLL_MS = 50
_TYPES = ("kvm", "qemu", "test")


@dataclass(frozen=True, slots=True)
class LibvirtOptions:
    """The options of one site.

    ``uri``           where libvirt is, as this machine reaches it
    ``peer_uri``      the same, as other hosts reach it; without one machines cannot be moved here or away
    ``data_uri``      where other hosts send memory to, if libvirt's own choice does not do
    ``template``      a description of a domain, of which name, memory and console are set; or without one:
    ``type``          what drives machines: kvm, or qemu without it
    ``kernel``        to boot directly, with ``initrd`` and ``cmdline``; a path on the host
    ``volume``        the volume in ``pool`` whose contents each machine gets, in a layer of its own
    ``network``       libvirt's network that machines are in; without one they are in none
    ``least_memory_mib``  what the image needs to boot; who asks for less gets that much
    ``cpu_percent``   the most that one machine gets, of one CPU
    ``guest_agent``   whether machines run QEMU's guest agent, through which commands are run
    ``suspend``       whether memory may be saved on the host
    """

    uri: str = "qemu:///system"
    peer_uri: str | None = None
    data_uri: str | None = None
    template: Path | None = None
    type: str = "kvm"
    machine: str | None = None
    vcpus: int = 1
    least_memory_mib: int = 1
    cpu_percent: int | None = None
    kernel: str | None = None
    initrd: str | None = None
    cmdline: str | None = None
    pool: str = "default"
    volume: str | None = None
    network: str | None = None
    consoles: str = CONSOLES
    guest_agent: bool = False
    suspend: bool = True
    habits: Habits = field(default_factory=Habits)


def read_options(options: Mapping[str, object]) -> LibvirtOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field.

    The keys are the fields of `LibvirtOptions`, and ``poll_s`` and ``boot_within_s`` for its habits.
    """
    keys, usual = Keys(options), LibvirtOptions()
    read = LibvirtOptions(
        uri=keys.text("uri", usual.uri),
        peer_uri=keys.text("peer_uri", None),
        data_uri=keys.text("data_uri", None),
        template=_template(keys),
        type=keys.name_of("type", _TYPES, usual.type),
        machine=keys.text("machine", None),
        vcpus=keys.whole("vcpus", usual.vcpus),
        least_memory_mib=keys.whole("least_memory_mib", usual.least_memory_mib),
        cpu_percent=keys.whole("cpu_percent", None),
        kernel=keys.text("kernel", None),
        initrd=keys.text("initrd", None),
        cmdline=keys.text("cmdline", None),
        pool=keys.text("pool", usual.pool),
        volume=keys.text("volume", None),
        network=keys.text("network", None),
        consoles=keys.text("consoles", usual.consoles),
        guest_agent=keys.flag("guest_agent", default=usual.guest_agent),
        suspend=keys.flag("suspend", default=usual.suspend),
        habits=Habits(
            poll_s=keys.milliseconds("poll_s", 1000, _LEAST_POLL_MS) / 1000,
            boot_within_ms=keys.milliseconds("boot_within_s", 300_000, 1000),
        ),
    )
    keys.done()
    _check_boot(read)
    return read


def _template(keys: Keys) -> Path | None:
    path = keys.text("template", None)
    if path is None:
        return None
    try:
        is_domain = ET.parse(path).getroot().tag == "domain"  # noqa: S314 - the operator's own file
    except (OSError, ET.ParseError):
        is_domain = False
    if not is_domain:
        raise InvalidField(keys.where("template"), path, "a file with libvirt's description of a domain")
    return Path(path)


def _check_boot(read: LibvirtOptions) -> None:
    if read.kernel is None and (read.initrd or read.cmdline):
        raise InvalidField(
            "initrd" if read.initrd else "cmdline", read.initrd or read.cmdline, "kernel beside it"
        )
