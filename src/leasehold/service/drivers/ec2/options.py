"""What can the configuration say to a site in EC2? Credentials are none of it: boto3 finds them itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from leasehold.configuration.declaration import Flag, Seconds, Table, Text, Texts, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.images import ImageTable
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler.loop import ReconcilerSettings

_ADDRESS = re.compile(r"https?://[^/\s@]+(/\S*)?")


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        # not shown: who writes a password into an address should not find it in a log
        expected = "an address as https://host:port, without a password"
        raise InvalidField("endpoint_url", "...", expected)
    return text


def _ami(text: str) -> str:
    if not text.startswith("ami-"):
        raise InvalidField("image", text, "the ID of an AMI, such as ami-0c1ac8a41498c1a9c")
    return text


@dataclass(frozen=True, slots=True)
class Ec2Options:
    """The options of one site."""

    region: Annotated[str, Text("region of the machines")]
    image: Annotated[str, Text("image from which machines boot")]
    instance_type: Annotated[str, Text("instance type", more="; the memory of a lease does not change it")]
    images: Annotated[
        Mapping[str, str],
        ImageTable(
            "images that a lease may name", more=', such as `{ debian-12 = "ami-0c1ac8a41498c1a9c" }`', convert=_ami
        ),
    ] = field(default_factory=dict)
    name: Annotated[
        str | None,
        Text(
            "tag of its machines",
            more=". Two gateways that share an account and a region need two names",
            unset="the name of the site",
        ),
    ] = None
    endpoint_url: Annotated[
        str | None, Text("endpoint of another cloud with the same API", unset="that of Amazon", convert=_address)
    ] = None
    profile: Annotated[str | None, Text("profile of the AWS configuration", unset="the choice of boto3")] = None
    subnet: Annotated[str | None, Text("subnet of the machines", unset="the default one")] = None
    security_groups: Annotated[tuple[str, ...], Texts("IDs of the security groups", unset="the default ones")] = ()
    key_name: Annotated[str | None, Text("name of the key pair", unset="none")] = None
    instance_profile: Annotated[str | None, Text("instance profile, which gives machines a role")] = None
    hibernate: Annotated[bool, Flag("machines can be suspended", more=", if image and type allow it")] = False
    commands: Annotated[
        bool,
        Flag("the image runs the script in its user data", more=", as all images with cloud-init do"),
    ] = True
    root_device: Annotated[
        str | None,
        Text(
            'root device, such as `"/dev/xvda"`; it is then encrypted',
            more=", which hibernation requires",
            unset="that of the image",
        ),
    ] = None
    root_gib: Annotated[int | None, Whole("size of the root device", unset="that of the image")] = None
    poll_ms: Annotated[int, Seconds("polling interval while no orders are open", least_ms=100)] = 10_000
    boot_within_ms: Annotated[
        int,
        Seconds(
            "time for machines to come up, after which the lease has failed",
            more="; it includes waiting for capacity in the cloud",
            least_ms=1_000,
        ),
    ] = 600_000

    @property
    def able(self) -> Capabilities:
        """What its machines can do."""
        return Capabilities(
            suspend=self.hibernate,
            migrate=False,
            commands=self.commands,
            images=tuple(sorted(self.images)),
            login=self.commands,
        )

    @property
    def settings(self) -> ReconcilerSettings:
        """How its machines are looked after."""
        return ReconcilerSettings(self.poll_ms / 1000, self.boot_within_ms)


OPTIONS = Table(Ec2Options, "Machines of the site in EC2.")


def read_options(options: Mapping[str, object]) -> Ec2Options:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    read = OPTIONS.read(Keys(options))
    if read.root_gib is not None and read.root_device is None:
        raise InvalidField("root_gib", read.root_gib, "root_device as well: the device of that size")
    return read
