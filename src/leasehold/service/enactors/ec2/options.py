"""What can the configuration say to a site in EC2? Credentials are none of it: boto3 finds them itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField
from leasehold.service.enactors.kept.caretaker import Habits

_ADDRESS = re.compile(r"https?://[^/\s@]+(/\S*)?")
_LEAST_POLL_MS = 100


@dataclass(frozen=True, slots=True)
class Ec2Options:
    """The options of one site.

    ``name``              what its machines are tagged with; the site's own name where none is given
    ``hibernate``         whether they can be suspended, as image and type must allow
    ``commands``          whether the image runs scripts of its user data when it first boots
    ``root_device``       the device of their root, if it has to be encrypted, or of ``root_gib``
    """

    region: str
    image: str
    instance_type: str
    name: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    subnet: str | None = None
    security_groups: tuple[str, ...] = ()
    key_name: str | None = None
    instance_profile: str | None = None
    hibernate: bool = False
    commands: bool = True
    root_device: str | None = None
    root_gib: int | None = None
    habits: Habits = field(default_factory=Habits)


def read_options(options: Mapping[str, object]) -> Ec2Options:
    """Read the options; raises InvalidField or UnknownName with the key as field.

    The keys are the fields of `Ec2Options`, and ``poll_s`` and ``boot_within_s`` for its habits.
    """
    keys = Keys(options)
    read = Ec2Options(
        region=keys.text("region"),
        image=keys.text("image"),
        instance_type=keys.text("instance_type"),
        name=keys.text("name", None),
        endpoint_url=_address(keys, "endpoint_url"),
        profile=keys.text("profile", None),
        subnet=keys.text("subnet", None),
        security_groups=keys.texts("security_groups", ()),
        key_name=keys.text("key_name", None),
        instance_profile=keys.text("instance_profile", None),
        hibernate=keys.flag("hibernate", default=False),
        commands=keys.flag("commands", default=True),
        root_device=keys.text("root_device", None),
        root_gib=keys.whole("root_gib", None),
        habits=Habits(
            poll_s=keys.milliseconds("poll_s", 10_000, _LEAST_POLL_MS) / 1000,
            boot_within_ms=keys.milliseconds("boot_within_s", 600_000, 1000),
        ),
    )
    keys.done()
    if read.root_gib is not None and read.root_device is None:
        raise InvalidField("root_gib", read.root_gib, "root_device beside it, which says whose size that is")
    return read


def _address(keys: Keys, key: str) -> str | None:
    address = keys.text(key, None)
    if address is not None and not _ADDRESS.fullmatch(address):
        # not shown: who writes a password into an address should not find it in a log
        raise InvalidField(keys.where(key), "...", "an address as https://host:port, without a password")
    return address
