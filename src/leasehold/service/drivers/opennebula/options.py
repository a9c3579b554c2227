"""What can the configuration say to a site in an OpenNebula?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from leasehold.configuration.declaration import Choice, FilePath, Flag, Seconds, Table, Text, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.images import ImageNumbers
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler.loop import ReconcilerSettings

SAVE = ("stop", "suspend", "none")
_MOST_ID = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or "@" in text or not text.isascii() or not text.isprintable() or " " in text:
        # not shown: a password written into an address should not be repeated in a log
        raise InvalidField("endpoint", "...", "an address as https://host:2633/RPC2, without a password")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidField("name", text, "letters, digits, '.', '_' and '-', at most 64 of them")
    return text


@dataclass(frozen=True, slots=True)
class OpenNebulaOptions:
    """The options of one site."""

    endpoint: Annotated[
        str,
        Text("address of the XML-RPC API", more=', such as `"https://one.example.org:2633/RPC2"`', convert=_address),
    ]
    template: Annotated[int, Whole("ID of the VM template", more=": image, CPUs, networks", least=0, most=_MOST_ID)]
    images: Annotated[
        Mapping[str, int],
        ImageNumbers(
            "IDs of the VM templates of the images that a lease may name",
            more=", such as `{ debian-12 = 7 }`",
            least=0,
        ),
    ] = field(default_factory=dict)
    auth_file: Annotated[
        Path | None,
        FilePath(
            "file with the credentials",
            more=", `user:password` on one line, readable by its owner only",
            unset="`~/.one/one_auth`",
        ),
    ] = None
    name: Annotated[
        str | None,
        Text(
            "name of the site in its machines",
            more=". Two gateways that share a user need two names",
            unset="the name of the site",
            convert=_name,
        ),
    ] = None
    network: Annotated[
        int | None,
        Whole("ID of the virtual network of the machines", least=0, most=_MOST_ID, unset="those of the template"),
    ] = None
    least_memory_mib: Annotated[int, Whole("memory that the image needs to boot; smaller requests get this much")] = 1
    save: Annotated[
        str,
        Choice(
            "how machines are suspended",
            more=": `stop` frees their host, `suspend` is quicker and keeps their room there, `none`: they cannot be",
            of=SAVE,
        ),
    ] = "stop"
    commands: Annotated[bool, Flag("the image has the contextualization packages, which run a start script")] = True
    onegate: Annotated[bool, Flag("machines may use OneGate, and report exit statuses through it")] = False
    poll_ms: Annotated[int, Seconds("polling interval while no orders are open", least_ms=100)] = 10_000
    answer_within_ms: Annotated[int, Seconds("time for OpenNebula to answer a call", least_ms=100)] = 30_000
    unknown_within_ms: Annotated[
        int, Seconds("time in the state `UNKNOWN` after which the lease has failed", least_ms=1_000)
    ] = 300_000
    boot_within_ms: Annotated[
        int,
        Seconds(
            "time for machines to come up, after which the lease has failed",
            more="; it includes waiting for a host",
            least_ms=1_000,
        ),
    ] = 600_000

    @property
    def able(self) -> Capabilities:
        """What its machines can do."""
        return Capabilities(
            suspend=self.save != "none",
            migrate=False,
            commands=self.commands,
            images=tuple(sorted(self.images)),
            login=self.commands,
        )

    @property
    def settings(self) -> ReconcilerSettings:
        """How its machines are looked after."""
        return ReconcilerSettings(self.poll_ms / 1000, self.boot_within_ms)


OPTIONS = Table(OpenNebulaOptions, "Machines of the site in an OpenNebula.")


def read_options(options: Mapping[str, object]) -> OpenNebulaOptions:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    return OPTIONS.read(Keys(options))
