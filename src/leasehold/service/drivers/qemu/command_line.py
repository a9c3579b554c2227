"""How is QEMU called? Every flag of a machine, in one place."""

from collections.abc import Sequence
from pathlib import Path

from leasehold.service.drivers.qemu.images.image import Image
from leasehold.service.drivers.qemu.record import Hardware

QEMU = "qemu-system-x86_64"
KVM, TCG = "kvm", "tcg"

_ACCELERATORS = {
    KVM: ("-accel", "kvm", "-cpu", "host"),
    # 64 MiB of translated code are enough; QEMU itself would take a gibibyte
    TCG: ("-accel", "tcg,tb-size=64"),
}
_KERNEL_SAYS = "console=ttyS0 quiet panic=-1"
# Without it a guest on a busy computer panics now and then: "IO-APIC + timer doesn't work!"
_NO_TIMER_CHECK = "no_timer_check"


def boot_command(
    name: str, hardware: Hardware, image: Image, files: "MachineFiles", more: Sequence[str] = ()
) -> list[str]:
    """Write the call that boots a machine, or with ``more`` one that waits for its memory."""
    return [
        QEMU,
        *("-name", f"guest={_escaped(name)}"),
        *("-machine", hardware.machine_type),
        *_ACCELERATORS[hardware.accelerator],
        *("-m", str(hardware.memory_mib), "-smp", str(hardware.cpus)),
        *("-display", "none", "-nodefaults", "-no-user-config"),
        # A guest that is over stays there until somebody has seen how that came about.
        *("-action", "reboot=shutdown,shutdown=pause,panic=pause"),
        # Whoever breaks out of a guest finds neither programs to run nor rights to gain.
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *(
            "-chardev",
            f"file,id=console,path={_escaped(files.console)},append=on",
            "-serial",
            "chardev:console",
        ),
        *(
            "-chardev",
            f"socket,id=agent,path={files.agent.name},server=on,wait=off",
            "-serial",
            "chardev:agent",
        ),
        *("-qmp", f"unix:{files.qmp.name},server=on,wait=off"),
        *("-drive", f"file={_escaped(files.disk)},if=virtio,format=qcow2,discard=unmap"),
        *("-device", "pvpanic-pci"),
        *(_output_port(files) if hardware.has_output else ()),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", f"{_KERNEL_SAYS} {_NO_TIMER_CHECK}"),
        *("-pidfile", str(files.pid)),
        *more,
    ]


def _output_port(files: "MachineFiles") -> tuple[str, ...]:
    """Give the flags of the port to which a guest copies what its command writes.

    It is as plain as the console, and has an interrupt of its own. Through a virtio port a guest that was
    moved in the midst of writing stood still for ever, now and then: it waits for a buffer back with nothing
    else going on.
    """
    return (
        *("-chardev", f"file,id=output,path={_escaped(files.output)},append=on"),
        *("-device", "isa-serial,chardev=output,index=2,iobase=0x3e8,irq=5"),
    )


def waiting_for(address: str) -> tuple[str, ...]:
    """Give the flags of a machine whose memory comes from there, and that then waits to be let go on."""
    return ("-S", "-incoming", address)


class MachineFiles:
    """Where the files of one machine are: in the folder of its lease, by its number.

    ``state``     its memory, complete; ``partial`` while it is being written
    ``incoming``  the socket at which memory arrives from another site
    ``console``   what it writes, which outlives its lease; so does
    ``output``    what its command writes
    """

    def __init__(self, folder: Path, number: int, console: Path) -> None:
        self.folder = folder
        self.disk = folder / f"{number}.qcow2"
        self.state = folder / f"{number}.state"
        self.partial = folder / f"{number}.partial"
        self.lock = folder / f"{number}.lock"
        self.pid = folder / f"{number}.pid"
        self.qmp = folder / f"{number}.qmp"
        self.agent = folder / f"{number}.agent"
        self.incoming = folder / f"{number}.incoming"
        self.console = console
        self.output = console.with_suffix(".out")


def _escaped(value: object) -> str:
    """Write a value into a list of QEMU's, in which commas part the items."""
    return str(value).replace(",", ",,")
