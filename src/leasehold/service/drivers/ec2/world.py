"""The machines of one site in EC2: found by their tags, asked for and ended with plain calls."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ProfileNotFound

from leasehold.model.errors import InvalidField
from leasehold.service.drivers.ec2.options import Ec2Options
from leasehold.service.drivers.ec2.reading import Instance, exit_status, read_instance
from leasehold.service.drivers.ec2.refusals import for_good, hopeless, understood
from leasehold.service.drivers.ec2.words import MOST_USER_DATA, SITE, launch, user_data
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler.provider import (
    Desired,
    Machine,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Seen,
    Step,
)

_CONSOLE_WITHIN_S = 120.0
"""So long after a machine has stopped its console is waited for; EC2 brings it after a while, if at all."""

_CALLS = Config(
    connect_timeout=5,
    read_timeout=20,
    retries={"mode": "standard", "max_attempts": 3},
    user_agent_extra="leasehold",
)


def connect(options: Ec2Options) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes at run time
    """Make a client; credentials are found as boto3 finds them, and are in no word of ours.

    Raises InvalidField for a profile that is not there.
    """
    try:
        session = boto3.session.Session(profile_name=options.profile)
    except ProfileNotFound as error:
        raise InvalidField("profile", options.profile, "a profile of the AWS configuration") from error
    return session.client("ec2", region_name=options.region, endpoint_url=options.endpoint_url, config=_CALLS)


class Ec2Provider(Provider):
    """The machines of one site; ``ledger`` is a name that no other ledger has."""

    def __init__(self, options: Ec2Options, site: str, ledger: str) -> None:
        self._options = options
        self._site = options.name or site
        self._ledger = ledger
        self._client = connect(options)
        self._endings = _Endings(self._console_of)
        self._ways: dict[Step, Callable[[MachineInstance, Sequence[str]], None]] = {
            Step.CREATE: self._create,
            Step.RESUME: self._resume,
            Step.SAVE: self._save,
            Step.REMOVE: self._remove,
        }

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        return Capabilities(suspend=self._options.hibernate, migrate=False, commands=self._options.commands)

    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """See every machine with the tag of this site, page by page."""
        desired = {instance.key: instance.desired for instance in instances}
        with understood():
            there = [one for one in self._described() if _counts(one, desired.get(one.key))]
            self._endings.forget_all_but(one.name for one in there)
            return [self._seen(one) for one in there]

    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Do it, with those machines that it is still to be done to."""
        touched = _TOUCHED.get(step, frozenset())
        with understood():
            self._ways[step](instance, [machine.handle for machine in machines if machine.state in touched])

    def console(self, instance: MachineInstance) -> str:
        """Give what its machines have written, as far as EC2 has brought it yet."""
        names = sorted(one.name for one in self._described() if one.key == instance.key)
        return "".join(self._console_of(name) for name in names)

    def close(self) -> None:
        """Let go of them."""
        self._client.close()

    # seeing

    def _described(self) -> Iterator[Instance]:
        pages = self._client.get_paginator("describe_instances").paginate(
            Filters=[{"Name": f"tag:{SITE}", "Values": [self._site]}]
        )
        for page in pages:
            for reservation in page["Reservations"]:
                for described in reservation["Instances"]:
                    instance = read_instance(described)
                    if instance is not None:
                        yield instance

    def _seen(self, instance: Instance) -> Machine:
        seen = self._endings.of(instance.name) if instance.has_ended else instance.seen()
        return Machine(instance.key, instance.name, *seen, takes_room=False)

    def _console_of(self, name: str) -> str:
        with suppress(ClientError):  # a console is nothing that anybody should fail for
            return str(self._client.get_console_output(InstanceId=name).get("Output", ""))
        return ""

    # doing

    def _create(self, instance: MachineInstance, _names: Sequence[str]) -> None:
        if instance.command and len(user_data(instance.command).encode()) > MOST_USER_DATA:
            raise PermanentError(f"the command is too long for EC2: with its script more than {MOST_USER_DATA} bytes")
        try:
            self._client.run_instances(**launch(self._options, self._site, self._ledger, instance))
        except ClientError as error:
            if for_good(error):
                raise hopeless(error) from error
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


def _counts(instance: Instance, desired: Desired | None) -> bool:
    """EC2 lists what has gone for an hour: that is news only to who wanted it to stay."""
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
        """Forget the machines that are no more."""
        for name in self._since_s.keys() - set(names):
            del self._since_s[name]
            self._known.pop(name, None)


def _ending(status: int | None) -> Seen:
    if status is None:
        return Seen(MachineState.ENDED, "its exit status is not known: no console came")
    return Seen(MachineState.ENDED, exit_status=status)
