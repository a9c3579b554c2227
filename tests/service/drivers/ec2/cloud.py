"""A cloud that only pretends: moto's server, and guests in its machines that work by a clock of our own.

moto answers as EC2 does. What it leaves out is put in here, by EC2's documentation: who asks twice with one
token gets the same machines, who hibernates is told so, and a machine that shuts itself down says that.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.service.drivers.sites import REFERENCE_MIPS, Clock

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.drivers.ec2.driver import LEASE
from leasehold.service.drivers.protocol import Driver, DriverSetup
from leasehold.service.drivers.registry import driver

# moto takes more than a second to import, and whatever is collected imports this module
if TYPE_CHECKING:
    from moto.ec2.models.instances import Instance, InstanceBackend

REGION = "eu-west-1"
ACCOUNT = "123456789012"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "pretended-secret",
    "AWS_SECRET_ACCESS_KEY": "pretended-secret",
    "AWS_CONFIG_FILE": "/nonexistent",
}
_SLEEP = re.compile(r"^\( sleep ([\d.]+) \)", re.MULTILINE)


@contextmanager
def moto_server() -> Iterator[str]:
    """Run moto's server, and give its address."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - see above

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        assert server._server is not None
        server._server.server_close()


class Cloud:
    """The machines behind the server, as their owner cannot see them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.exit_status: int | str = 0
        self._worked_ms: dict[str, int] = {}

    @property
    def client(self) -> Any:
        """A client of our own."""
        import boto3  # noqa: PLC0415 - see above

        return boto3.client("ec2", region_name=REGION, endpoint_url=self.url)

    @property
    def _backend(self) -> Any:
        from moto.backends import get_backend  # noqa: PLC0415 - see above

        return get_backend("ec2")[ACCOUNT][REGION]

    def clear(self) -> None:
        """Let there be no machines; a new backend would take a second to lay its networks."""
        self._backend.reservations.clear()

    def instances(self, *states: str) -> list["Instance"]:
        """List the machines in these states; all where none is named."""
        there: list[Instance] = [
            one for reservation in list(self._backend.reservations.values()) for one in reservation.instances
        ]
        return [one for one in there if not states or one._state.name in states]

    def pass_time(self, ms: int) -> None:
        """Let guests work that are running, and end when they are done."""
        for one in self.instances("running"):
            naps = _SLEEP.search(one.user_data.decode() if one.user_data else "")
            self._worked_ms[one.id] = self._worked_ms.get(one.id, 0) + ms
            if naps and self._worked_ms[one.id] >= float(naps[1]) * 1000:
                self.shut_down(one)

    def shut_down(self, one: "Instance", reason: str = "Client.InstanceInitiatedShutdown") -> None:
        """Stop a machine, for a reason."""
        from moto.ec2.models.instances import StateReason  # noqa: PLC0415 - see above

        one.stop()
        one.state_reason = StateReason(reason, reason)


def lacking(monkeypatch: Any, cloud: Cloud) -> None:
    """Put in what moto leaves out."""
    from moto.ec2.models.instances import Instance, InstanceBackend, StateReason  # noqa: PLC0415 - see above
    from moto.ec2.responses import general  # noqa: PLC0415 - see above

    launch, stop, asked = InstanceBackend.run_instances, Instance.stop, dict[str, Any]()

    def launch_once(backend: "InstanceBackend", *said: Any, **more: Any) -> Any:
        token = more["client_token"]
        asked[token] = asked.get(token) or launch(backend, *said, **more)
        return asked[token]

    def hibernate(one: "Instance") -> Any:
        state = stop(one)
        if one.hibernation_options:
            one.state_reason = StateReason("", "Client.UserInitiatedHibernate")
        return state

    class Console(str):
        __slots__ = ()

        def encode(self, *how: Any) -> bytes:
            return f"booted\nleasehold: exit status {cloud.exit_status}\n".encode(*how)

    monkeypatch.setattr(InstanceBackend, "run_instances", launch_once)
    monkeypatch.setattr(Instance, "stop", hibernate)
    monkeypatch.setattr(general, "SAMPLE_CONSOLE_OUTPUT", Console())


@dataclass
class Ec2Rig:
    """How the conformance suite gets at sites in a cloud: a fifth of a second at a time."""

    folder: Path
    cloud: Cloud
    options: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    slots: int = 4
    nap_s: int = 20
    reference_mips: int = REFERENCE_MIPS
    patience: int = 1_000  # some steps follow the real clock, and have to be given some seconds of it
    step_ms: int = 200

    def __post_init__(self) -> None:
        self._open: list[Driver] = []

    def setup(self, site: str) -> DriverSetup:
        """What a site is made from."""
        options: dict[str, object] = {
            "region": REGION,
            "image": "ami-12345678",
            "instance_type": "t3.small",
            "endpoint_url": self.cloud.url,
            "poll_s": 1,
            "hibernate": True,
        }
        return DriverSetup(
            site,
            self.slots,
            REFERENCE_MIPS,
            REFERENCE_MIPS,
            OverheadModel(),
            self.folder / site,
            self.clock,
            {**options, **self.options},
        )

    def open(self, site: str = "a") -> Driver:
        """Open a site."""
        opened = driver("ec2", self.setup(site))
        self._open.append(opened)
        return opened

    async def kill(self, driver: Driver) -> None:
        """Closing tells the cloud nothing, as a crash would not; a real one is in its own test."""
        self._open = [one for one in self._open if one is not driver]
        await driver.close()

    def lie(self, lease_id: int, report: str) -> None:
        """Let a machine write this on its console, and shut itself down."""
        self.cloud.exit_status = report
        for one in self.cloud.instances("running"):
            if {"key": LEASE, "value": str(lease_id)} in one.get_tags():
                self.cloud.shut_down(one)

    async def pass_time(self) -> None:
        self.clock.now_ms += self.step_ms
        self.cloud.pass_time(self.step_ms)
        for one in self._open:
            await one.observe()
