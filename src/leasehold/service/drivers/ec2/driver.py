"""The EC2 driver: the machines of a site, found by their tags, are created and removed with plain calls."""

import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ProfileNotFound

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.bounds import LATEST_MS, exit_status_in, one_line, whole_in
from leasehold.service.drivers.ec2.options import Ec2Options, read_options
from leasehold.service.drivers.facts import Access
from leasehold.service.drivers.protocol import Capabilities, DriverSetup
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.driver import ReconciledDriver
from leasehold.service.drivers.reconciler.instances import Key
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Seen,
    Step,
    TransientError,
)

# --- what is said to EC2 ----------------------------------------------------------------------------------------------

SITE, LEASE, INCARNATION = "leasehold:site", "leasehold:lease", "leasehold:incarnation"
"""The tags of a machine: whose it is, and the incarnation that it came with."""

MOST_USER_DATA = 16_384
"""EC2's limit, in bytes."""

_SCRIPT = """\
#!/bin/sh
# The command of a lease. When it has ended the machine shuts itself down, and so Leasehold sees that.
( {command} ) > /dev/console 2>&1 < /dev/null
echo "leasehold: exit status $?" > /dev/console
shutdown -h now
"""


def launch(options: Ec2Options, site: str, store: str, instance: MachineInstance) -> dict[str, Any]:
    """Write the request for all machines of a lease or none; the same request again gets the same ones."""
    request: dict[str, Any] = {
        "ClientToken": f"{store}-{instance.lease_id}.{instance.generation}",
        "ImageId": options.images[instance.image] if instance.image else options.image,
        "InstanceInitiatedShutdownBehavior": "stop",
        "InstanceType": options.instance_type,
        "MaxCount": instance.vms,
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "MinCount": instance.vms,
        "TagSpecifications": [{"ResourceType": kind, "Tags": _tags(site, instance)} for kind in _TAGGED],
    }
    if instance.command or instance.ssh_key:
        request["UserData"] = user_data(instance.command, instance.ssh_key)
    return request | _optional(options)


_TAGGED = ("instance", "volume")


def user_data(command: tuple[str, ...], ssh_key: str = "") -> str:
    """Write what cloud-init does once, when a machine first boots: it lets a user in, and runs the command."""
    script = _SCRIPT.format(command=shlex.join(command)) if command else ""
    if not ssh_key:
        return script
    # JSON is YAML, in which a key needs no quotes of its own.
    lets_in = "#cloud-config\n" + json.dumps({"ssh_authorized_keys": [ssh_key]}) + "\n"
    if not script:
        return lets_in
    both = MIMEMultipart()
    both.attach(MIMEText(lets_in, "cloud-config"))
    both.attach(MIMEText(script, "x-shellscript"))
    return both.as_string()


def _tags(site: str, instance: MachineInstance) -> list[dict[str, str]]:
    tags = {
        "Name": f"leasehold-{instance.lease_id}",
        SITE: site,
        LEASE: str(instance.lease_id),
        INCARNATION: str(instance.generation),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _optional(options: Ec2Options) -> dict[str, Any]:
    """Return what not every site asks for."""
    wished: dict[str, Any] = {
        "BlockDeviceMappings": [_root(options)] if options.root_device else None,
        "HibernationOptions": {"Configured": True} if options.hibernate else None,
        "IamInstanceProfile": {"Name": options.instance_profile} if options.instance_profile else None,
        "KeyName": options.key_name,
        "SecurityGroupIds": list(options.security_groups) or None,
        "SubnetId": options.subnet,
    }
    return {key: value for key, value in wished.items() if value is not None}


def _root(options: Ec2Options) -> dict[str, Any]:
    volume: dict[str, Any] = {"DeleteOnTermination": True, "Encrypted": True}
    if options.root_gib:
        volume["VolumeSize"] = options.root_gib
    return {"DeviceName": options.root_device, "Ebs": volume}


# --- what EC2 says ----------------------------------------------------------------------------------------------------

_EXIT_STATUS = re.compile(r"^leasehold: exit status ([0-9]{1,3})[ \t\r]*$", re.MULTILINE)
_SHUT_ITSELF_DOWN = "Client.InstanceInitiatedShutdown"
_HIBERNATED = "Client.UserInitiatedHibernate"
_PLAIN = {
    "pending": MachineState.PENDING,
    "running": MachineState.UP,
    "stopping": MachineState.LEAVING,
    "shutting-down": MachineState.LEAVING,
}


@dataclass(frozen=True, slots=True)
class CloudInstance:
    """One machine, as EC2 describes it; ``reason`` is the code of why it is so.

    ``address``  where it can be reached: its public name or address, or else its private one
    """

    key: Key
    name: str
    state: str
    reason: str
    address: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether it is still listed, and nothing of it is there any more."""
        return self.state == "terminated"

    @property
    def is_going(self) -> bool:
        """Whether it will never run again."""
        return self.state in {"shutting-down", "terminated"}

    @property
    def has_ended(self) -> bool:
        """Whether it has shut itself down, as it does when its command has ended."""
        return self.state == "stopped" and self.reason == _SHUT_ITSELF_DOWN

    def seen(self) -> Seen:
        """Return what that means for the instance."""
        if self.state in _PLAIN:
            return Seen(_PLAIN[self.state])
        if self.state == "stopped" and self.reason == _HIBERNATED:
            return Seen(MachineState.SAVED)
        return Seen(MachineState.FAILED, f"EC2 says of {self.name}: {self.state}, {self.reason or 'for no reason'}")


def read_instance(described: Mapping[str, Any]) -> CloudInstance | None:
    """Read a description; None where its tags are not those that we give."""
    tags = {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
    lease_id, generation = (whole_in(tags.get(name), 0, LATEST_MS) for name in (LEASE, INCARNATION))
    if lease_id is None or generation is None:
        return None
    reason = str(described.get("StateReason", {}).get("Code", ""))
    addresses = (described.get(name) for name in ("PublicDnsName", "PublicIpAddress", "PrivateIpAddress"))
    address = one_line(str(next(filter(None, addresses), "")))
    return CloudInstance((lease_id, generation), described["InstanceId"], described["State"]["Name"], reason, address)


def exit_status(console: str) -> int | None:
    """Find what the command of a machine ended with; None where the console does not say."""
    found = _EXIT_STATUS.findall(console)
    return exit_status_in(found[-1]) if found else None


_TOO_MANY = frozenset({"RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"})
_PERMANENT = (
    "IdempotentParameterMismatch",
    "InvalidAMIID",
    "InvalidBlockDeviceMapping",
    "InvalidGroup",
    "InvalidKeyPair",
    "InvalidParameter",
    "InvalidSubnetID",
    "InvalidUserData",
    "MissingParameter",
    "Unsupported",
)
"""How the codes of wrong requests begin. All else may change: room, limits, rights, the network."""


@contextmanager
def understood() -> Iterator[None]:
    """Raise TransientError where EC2 is asked too often; other errors stay as they are."""
    try:
        yield
    except ClientError as error:
        if code(error) in _TOO_MANY:
            raise TransientError(f"EC2 limits the request rate: {code(error)}") from error
        raise


def is_permanent(error: ClientError) -> bool:
    """Whether asking again in the same words gets the same answer."""
    return code(error).startswith(_PERMANENT)


def refused(error: ClientError) -> PermanentError:
    """Make the error of what EC2 says."""
    return PermanentError(f"EC2 says: {code(error)}: {error.response['Error'].get('Message', '')}")


def code(error: ClientError) -> str:
    """Give the code of an answer."""
    return str(error.response["Error"].get("Code", ""))


# --- the machines of a site -------------------------------------------------------------------------------------------

_CONSOLE_WITHIN_S = 120.0
"""So long after a machine has stopped its console is waited for; EC2 brings it after a while, if at all."""

_CALLS = Config(
    connect_timeout=5,
    read_timeout=20,
    retries={"mode": "standard", "max_attempts": 3},
    user_agent_extra="leasehold",
)


def connect(options: Ec2Options) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes at run time
    """Make a client; boto3 finds the credentials itself.

    Raises InvalidField for a profile that is not there.
    """
    try:
        session = boto3.session.Session(profile_name=options.profile)
    except ProfileNotFound as error:
        raise InvalidField("profile", options.profile, "a profile of the AWS configuration") from error
    return session.client("ec2", region_name=options.region, endpoint_url=options.endpoint_url, config=_CALLS)


class Ec2Provider(Provider):
    """The machines of one site; ``store`` is a name that no other store has."""

    def __init__(self, options: Ec2Options, site: str, store: str) -> None:
        self._options = options
        self._site = options.name or site
        self._store = store
        self._client = connect(options)
        self._endings = _Endings(self._console_of)
        self._actions: dict[Step, Callable[[MachineInstance, Sequence[str]], None]] = {
            Step.CREATE: self._create,
            Step.RESUME: self._resume,
            Step.SAVE: self._save,
            Step.REMOVE: self._remove,
        }

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        return self._options.able

    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """Observe every machine with the tag of this site, page by page."""
        desired = {instance.key: instance.desired for instance in instances}
        with understood():
            there = [one for one in self._described() if _counts(one, desired.get(one.key))]
            self._endings.forget_all_but(one.name for one in there)
            return [self._seen(one) for one in there]

    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Take a step, with those machines that still need it."""
        touched = _TOUCHED.get(step, frozenset())
        with understood():
            self._actions[step](instance, [machine.handle for machine in machines if machine.state in touched])

    def console(self, instance: MachineInstance) -> str:
        """Return what its machines have written, as far as EC2 has brought it yet."""
        names = sorted(one.name for one in self._described() if one.key == instance.key)
        return "".join(self._console_of(name) for name in names)

    def access(self, instance: MachineInstance) -> list[Access]:
        """Say where its machines are; as whom one logs in is up to their image."""
        there = [one for one in self._described() if one.key == instance.key and one.state == "running"]
        places = enumerate(sorted(there, key=lambda one: one.name))
        return [Access(number, one.address) for number, one in places if one.address]

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    # observing

    def _described(self) -> Iterator[CloudInstance]:
        pages = self._client.get_paginator("describe_instances").paginate(
            Filters=[{"Name": f"tag:{SITE}", "Values": [self._site]}]
        )
        for page in pages:
            for reservation in page["Reservations"]:
                for described in reservation["Instances"]:
                    instance = read_instance(described)
                    if instance is not None:
                        yield instance

    def _seen(self, instance: CloudInstance) -> Machine:
        seen = self._endings.of(instance.name) if instance.has_ended else instance.seen()
        return Machine(instance.key, instance.name, *seen, takes_room=False)

    def _console_of(self, name: str) -> str:
        with suppress(ClientError):  # nothing should fail for want of a console
            return str(self._client.get_console_output(InstanceId=name).get("Output", ""))
        return ""

    # steps

    def _create(self, instance: MachineInstance, _names: Sequence[str]) -> None:
        if len(user_data(instance.command, instance.ssh_key).encode()) > MOST_USER_DATA:
            raise PermanentError(f"the command is too long for EC2: with its script more than {MOST_USER_DATA} bytes")
        try:
            self._client.run_instances(**launch(self._options, self._site, self._store, instance))
        except ClientError as error:
            if is_permanent(error):
                raise refused(error) from error
            raise

    def _resume(self, _instance: MachineInstance, names: Sequence[str]) -> None:
        self._client.start_instances(InstanceIds=list(names))

    def _save(self, _instance: MachineInstance, names: Sequence[str]) -> None:
        if names:
            self._client.stop_instances(InstanceIds=list(names), Hibernate=True)

    def _remove(self, _instance: MachineInstance, names: Sequence[str]) -> None:
        if names:
            self._client.terminate_instances(InstanceIds=list(names))


_TOUCHED = {
    Step.RESUME: frozenset({MachineState.SAVED}),
    Step.SAVE: frozenset({MachineState.UP}),
    Step.REMOVE: frozenset(MachineState),
}


def _counts(instance: CloudInstance, desired: Desired | None) -> bool:
    """EC2 lists what has gone for an hour: that is news only where it is to stay."""
    if desired is None:
        return not instance.is_going
    return not instance.is_gone or desired is not Desired.GONE


class _Endings:
    """How commands have ended: what a console says of it is asked for until it says it, or time is up."""

    def __init__(self, console_of: Callable[[str], str]) -> None:
        self._console_of = console_of
        self._since_s: dict[str, float] = {}
        self._known: dict[str, Seen] = {}

    def of(self, name: str) -> Seen:
        """Say how a machine has ended; it is on its way to that while its console is waited for."""
        if name not in self._known:
            status = exit_status(self._console_of(name))
            waited_s = time.monotonic() - self._since_s.setdefault(name, time.monotonic())
            if status is None and waited_s < _CONSOLE_WITHIN_S:
                return Seen(MachineState.LEAVING)
            self._known[name] = _ending(status)
        return self._known[name]

    def forget_all_but(self, names: Iterable[str]) -> None:
        """Forget the machines that are gone."""
        for name in self._since_s.keys() - set(names):
            del self._since_s[name]
            self._known.pop(name, None)


def _ending(status: int | None) -> Seen:
    if status is None:
        return Seen(MachineState.ENDED, "its exit status is not known: no console came")
    return Seen(MachineState.ENDED, exit_status=status)


def ec2_driver(setup: DriverSetup) -> ReconciledDriver:
    """Make the driver of a site in EC2, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """
    options = read_options(setup.options)
    return ReconciledDriver(setup, lambda store: Ec2Provider(options, setup.site, store.identity), options.settings)
