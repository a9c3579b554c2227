"""What can the configuration say to a site of virtual machines? All of it has a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.enactors.protocol import Capabilities
from leasehold.service.enactors.qemu.command_line import KVM, TCG

AUTO = "auto"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class QemuOptions:
    """The options of one site.

    ``image``             the folder of the image; None: the one that `leasehold image build` has built
    ``accelerator``       ``auto`` takes KVM where a guest was seen to boot with it, and else TCG
    ``least_memory_mib``  of a machine whose lease asks for less; None: what the image needs at least
    ``cpus``              of each machine
    ``boot_ms``           a guest that is not up by then has failed
    ``move_ms``           a move that takes longer goes on without the guest running meanwhile
    ``console_bytes``     of what a machine writes in one incarnation, so much is kept
    ``output_bytes``      and so much of what its command writes
    ``keep_consoles``     of so many leases that are over
    ``warm_start``        whether machines begin as copies of one that has booted, see `warm`
    ``keep_warm``         so many copies are kept, those that were used last
    ``limits``            whether processes are bounded by control groups, where there are any
    ``capabilities``      what its machines can do
    """

    image: Path | None = None
    accelerator: str = AUTO
    least_memory_mib: int | None = None
    cpus: int = 1
    boot_ms: int = 120_000
    move_ms: int = 30_000
    console_bytes: int = 16 * _MIB
    output_bytes: int = 4 * _MIB
    keep_consoles: int = 1_000
    warm_start: bool = False
    keep_warm: int = 8
    limits: bool = True
    capabilities: Capabilities = field(default_factory=Capabilities)


def read_options(options: Mapping[str, object]) -> QemuOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field.

    The keys: ``image``, an absolute path; ``accelerator``, ``least_memory_mib``, ``cpus``, ``boot_s``,
    ``move_s``, ``console_mib``, ``output_mib``, ``keep_consoles``, ``warm_start``, ``keep_warm``; and
    ``limits``, ``suspend``, ``migrate`` and ``commands``, true unless they say otherwise.
    """
    keys, usual = Keys(options), QemuOptions()
    read = QemuOptions(
        image=_image(keys),
        accelerator=keys.name_of("accelerator", (AUTO, KVM, TCG), usual.accelerator),
        least_memory_mib=keys.whole("least_memory_mib", usual.least_memory_mib),
        cpus=keys.whole("cpus", usual.cpus),
        boot_ms=keys.milliseconds("boot_s", usual.boot_ms, least_ms=1_000),
        move_ms=keys.milliseconds("move_s", usual.move_ms, least_ms=100),
        console_bytes=keys.whole("console_mib", usual.console_bytes // _MIB) * _MIB,
        output_bytes=keys.whole("output_mib", usual.output_bytes // _MIB) * _MIB,
        keep_consoles=keys.whole("keep_consoles", usual.keep_consoles, least=0),
        warm_start=keys.flag("warm_start", default=False),
        keep_warm=keys.whole("keep_warm", usual.keep_warm),
        limits=keys.flag("limits", default=True),
        capabilities=Capabilities(
            suspend=keys.flag("suspend", default=True),
            migrate=keys.flag("migrate", default=True),
            commands=keys.flag("commands", default=True),
        ),
    )
    keys.done()
    return read


def _image(keys: Keys) -> Path | None:
    text = keys.text("image", None)
    if text is None:
        return None
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise InvalidField(
            "image", text, "an absolute path, of the folder that leasehold image build has made"
        )
    return path
