"""What can the configuration say to an emulated site? All of it has a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.configuration.keys import Keys
from leasehold.service.enactors.emulated.faults import Faults, read_faults
from leasehold.service.enactors.emulated.nodes import EmulatedNode, read_nodes
from leasehold.service.enactors.protocol import Capabilities


@dataclass(frozen=True, slots=True)
class EmulatedOptions:
    """The options of one site.

    ``boot_ms``       how long booting takes
    ``audit_lines``   how many lines of the audit are kept
    ``capabilities``  what its machines can do
    ``faults``        what goes wrong, and how often
    ``nodes``         its nodes; none: one for each VM
    """

    boot_ms: int = 0
    audit_lines: int = 1_000_000
    capabilities: Capabilities = field(default_factory=Capabilities)
    faults: Faults = field(default_factory=Faults)
    nodes: tuple[EmulatedNode, ...] = ()


def read_options(options: Mapping[str, object]) -> EmulatedOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field.

    The keys: ``boot_s``, ``audit_lines``; ``suspend``, ``migrate`` and ``commands``, true unless they say
    that these machines cannot; the fields of `Faults`, its times as ``delay_s``, ``observations_late_s`` and
    ``node_down_s``; and ``nodes``, for which see `read_nodes`.
    """
    keys, usual = Keys(options), EmulatedOptions()
    read = EmulatedOptions(
        boot_ms=keys.milliseconds("boot_s", usual.boot_ms),
        audit_lines=keys.whole("audit_lines", usual.audit_lines),
        capabilities=Capabilities(
            suspend=keys.flag("suspend", default=True),
            migrate=keys.flag("migrate", default=True),
            commands=keys.flag("commands", default=True),
        ),
        faults=read_faults(keys),
        nodes=read_nodes(keys),
    )
    keys.done()
    return read
