"""What can the configuration say to a site in EC2? Credentials are none of it: boto3 finds them itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from leasehold.configuration.declaration import Flag, Seconds, Table, Text, Texts, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.reconciler.loop import ReconcilerSettings

_ADDRESS = re.compile(r"https?://[^/\s@]+(/\S*)?")


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        # not shown: who writes a password into an address should not find it in a log
        expected = "an address as https://host:port, without a password"
        raise InvalidField("endpoint_url", "...", expected)
    return text


@dataclass(frozen=True, slots=True)
class Ec2Options:
    """The options of one site."""

    region: Annotated[str, Text("where")]
    image: Annotated[str, Text("what its machines boot from")]
    instance_type: Annotated[
        str, Text("how large they are", more="; what a lease asks for in memory does not change it")
    ]
    name: Annotated[
        str | None,
        Text(
            "what its machines are tagged with",
            more=". Two gateways that share an account and a region need two names",
            unset="that of the site",
        ),
    ] = None
    endpoint_url: Annotated[str | None, Text("another cloud with the same API", unset="Amazon's", convert=_address)] = (
        None
    )
    profile: Annotated[str | None, Text("a profile of the AWS configuration", unset="boto3's choice")] = None
    subnet: Annotated[str | None, Text("where in your network", unset="the default one")] = None
    security_groups: Annotated[
        tuple[str, ...], Texts("which rules hold for its network, by id", unset="the default ones")
    ] = ()
    key_name: Annotated[str | None, Text("whose key opens them", unset="nobody's")] = None
    instance_profile: Annotated[str | None, Text("which role they have")] = None
    hibernate: Annotated[bool, Flag("whether they can be suspended", more=", as image and type must allow")] = False
    commands: Annotated[
        bool,
        Flag("whether the image runs the script in its user data", more=", as all with cloud-init do"),
    ] = True
    root_device: Annotated[
        str | None,
        Text(
            'the device of the root, as `"/dev/xvda"`; it is then encrypted',
            more=", which hibernation asks for",
            unset="the image's",
        ),
    ] = None
    root_gib: Annotated[int | None, Whole("its size", unset="the image's")] = None
    poll_ms: Annotated[int, Seconds("how often to look while nothing is ordered", least_ms=100)] = 10_000
    boot_within_ms: Annotated[
        int,
        Seconds(
            "how long machines may take to come up, until the lease has failed",
            more="; room in the cloud is waited for that long too",
            least_ms=1_000,
        ),
    ] = 600_000

    @property
    def settings(self) -> ReconcilerSettings:
        """How its machines are looked after."""
        return ReconcilerSettings(self.poll_ms / 1000, self.boot_within_ms)


OPTIONS = Table(Ec2Options, "Its machines, in EC2.")


def read_options(options: Mapping[str, object]) -> Ec2Options:
    """Read the options; raises InvalidField or UnknownName with the key as field."""
    read = OPTIONS.read(Keys(options))
    if read.root_gib is not None and read.root_device is None:
        raise InvalidField("root_gib", read.root_gib, "root_device beside it, which says whose size that is")
    return read
