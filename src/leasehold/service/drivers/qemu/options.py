"""What can the configuration say to a site of virtual machines? All of it has a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from leasehold.configuration.declaration import Choice, FilePath, Flag, Seconds, Table, Whole, Within
from leasehold.configuration.keys import NOTHING, Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.images import ImageTable, absolute_folder
from leasehold.service.drivers.login import LOCAL, login_address_of
from leasehold.service.drivers.protocol import CAPABILITIES, Capabilities
from leasehold.service.drivers.qemu.machine import KVM, TCG

AUTO = "auto"
_MIB = 1 << 20


class _ImageFolder(FilePath):
    """The folder of an image, in which ``~`` may stand."""

    accepts = "absolute path"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the path; a relative one is refused."""
        text = keys.text(name, default)
        if text is default:
            return default
        path = Path(str(text)).expanduser()
        if not path.is_absolute():
            expected = "an absolute path, of the folder that leasehold image build has made"
            raise InvalidField(keys.where(name), text, expected)
        return path


class _Mebibytes(Whole):
    """An amount: in bytes at a field ``..._bytes``, in MiB in a file under ``..._mib``."""

    def name_of(self, field_name: str) -> str:
        """Give the name of the field with its other unit."""
        return f"{field_name.removesuffix('_bytes')}_mib"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a whole number of MiB, and give bytes."""
        if name not in keys:
            return keys.take(name, default)
        return keys.whole(name, NOTHING, self.least, self.most) * _MIB

    def write(self, value: int) -> int:
        """Give MiB."""
        return value // _MIB


@dataclass(frozen=True, slots=True)
class QemuOptions:
    """The options of one site."""

    image: Annotated[Path | None, _ImageFolder("folder of the image", unset="`images/debian` in the data folder")] = (
        None
    )
    images: Annotated[
        Mapping[str, str],
        ImageTable(
            "folders of the images that a lease may name",
            more=", each made by `leasehold image build`",
            convert=absolute_folder,
        ),
    ] = field(default_factory=dict)
    accelerator: Annotated[
        str,
        Choice(
            "kvm, tcg, or auto: KVM if a guest has booted with it",
            more=", else TCG, which interprets and is about ten times slower",
            of=(AUTO, KVM, TCG),
        ),
    ] = AUTO
    least_memory_mib: Annotated[
        int | None, Whole("memory of a machine whose lease requests less", unset="the minimum of the image")
    ] = None
    cpus: Annotated[int, Whole("processors of each machine whose job sets none")] = 1
    boot_ms: Annotated[int, Seconds("time for a guest to boot, after which it has failed", least_ms=1_000)] = 120_000
    move_ms: Annotated[
        int, Seconds("time of a live migration, after which the guest is paused to complete it", least_ms=100)
    ] = 30_000
    warm_start: Annotated[
        bool,
        Flag(
            "machines start as copies of one that has booted before",
            more=", from the same image with the same memory and cores",
        ),
    ] = False
    keep_warm: Annotated[
        int,
        Whole(
            "maximum number of such copies; the least recently used are deleted",
            more=". Each takes as much disk as its guest uses memory",
        ),
    ] = 8
    limits: Annotated[
        bool,
        Flag(
            "limit memory and CPU of processes by control groups",
            more=" (version 1 or 2), if the service may create them",
        ),
    ] = True
    login_address: Annotated[str, login_address_of("this computer")] = LOCAL
    console_bytes: Annotated[int, _Mebibytes("stored console output of a machine")] = 16 * _MIB
    output_bytes: Annotated[
        int,
        _Mebibytes(
            "stored output of a command on each machine",
            more="; above it the beginning is lost",
        ),
    ] = 4 * _MIB
    keep_consoles: Annotated[int, Whole("closed leases whose consoles and output are stored", least=0)] = 1_000
    capabilities: Annotated[Capabilities, Within("capabilities of its machines", CAPABILITIES)] = field(
        default_factory=Capabilities
    )

    @property
    def able(self) -> Capabilities:
        """What its machines can do, with the images that they may boot from."""
        return replace(self.capabilities, images=tuple(sorted(self.images)), login=True)


OPTIONS = Table(QemuOptions, "Virtual machines of the site under QEMU.")


def read_options(options: Mapping[str, object]) -> QemuOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    return OPTIONS.read(Keys(options))
