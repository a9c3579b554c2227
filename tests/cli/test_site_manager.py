"""``leasehold site --gateway``: a gateway and a site as processes of their own, each killed in turn."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.waiting import until

from leasehold.client import Client, Conflict, JobSpec, Lease, LeaseSpec, RetryPolicy, Role, TokenSpec
from leasehold.service.drivers.emulated.record import Action, brought_up_twice, read_audit

CONFIG = """
[service]
check_every_s = 1
reconcile_every_s = 1
[gateway]
policy = "most-free"
[[cluster]]
name = "{name}"
slots = {slots}
[[cluster.emulated.nodes]]
software = ["{name} 1.0"]
"""


class Service:
    """A gateway or a site: its folder, and the process that serves it now."""

    def __init__(self, folder: Path, name: str, slots: int, *command: str) -> None:
        self.folder = folder
        self._command = [sys.executable, "-m", "leasehold.cli.main", *command]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        (folder / "leasehold.toml").write_text(CONFIG.format(name=name, slots=slots))

    def start(self, port: int = 0) -> None:
        """Start it; returns when it answers."""
        (self.folder / "url").unlink(missing_ok=True)
        command = [*self._command, "--data", str(self.folder), "--port", str(port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self.is_ready)

    @property
    def url(self) -> str:
        return (self.folder / "url").read_text().strip()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @contextmanager
    def asking(self) -> Iterator[Client]:
        token = (self.folder / "admin.token").read_text().strip()
        with Client(self.url, token, retry=RetryPolicy(connect_tries=1)) as client:
            yield client

    def is_ready(self) -> bool:
        if not (self.folder / "url").exists():
            return False
        with self.asking() as client:
            return client.health().ready

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "gateway", "near", 2, "serve")
    yield service
    service.kill()


@pytest.fixture
def far(tmp_path: Path, gateway: Service) -> Iterator[Service]:
    """A site of eight VMs; the gateway gives it its token."""
    gateway.start()
    token = tmp_path / "far.token"
    spec = TokenSpec(consumer="far-manager", roles=[Role.PEER], sites=["far"])
    with gateway.asking() as client:
        token.write_text(client.tokens.create(spec).token)
    token.chmod(0o600)
    site = Service(
        tmp_path / "far",
        "far",
        8,
        "site",
        "--gateway",
        gateway.url,
        "--name",
        "far",
        "--token-file",
        str(token),
    )
    yield site
    site.kill()


def guest(gateway: Service, seconds: float) -> Lease:
    with gateway.asking() as client:
        command = ["sleep", f"{seconds}"]
        return client.leases.submit(LeaseSpec(type="suspendable", vms=6, duration_s=60, memory_mib=1, command=command))


def state_of(service: Service, lease_id: int) -> str:
    with service.asking() as client:
        return client.leases.get(lease_id).state.value


@pytest.mark.soak
def test_each_goes_on_without_the_other_and_both_agree_in_the_end(gateway: Service, far: Service) -> None:
    far.start()
    with gateway.asking() as client:
        until(lambda: client.sites.get("far").status == "up")

    # the gateway dies: the site's own users, and its guest, do not notice
    first = guest(gateway, 2)
    assert first.site == "far"
    until(lambda: state_of(gateway, first.id) == "running")
    port = gateway.port
    gateway.kill()
    with far.asking() as client:
        own = client.leases.submit(LeaseSpec(local=True, site="far", vms=8, duration_s=0.5, memory_mib=1))
        assert own.state == "starting"  # at once, as for its own users there are no guests
        until(lambda: client.leases.get(own.id).is_over)
    gateway.start(port)
    until(lambda: state_of(gateway, first.id) == "completed")
    with gateway.asking() as client:
        assert client.leases.get(first.id).preemptions == 1

    # the site's manager dies: its machines go on, and the gateway hears of it
    second = guest(gateway, 2)
    until(lambda: state_of(gateway, second.id) == "running")
    far.kill()
    assert state_of(gateway, second.id) == "running"
    far.start()
    until(lambda: state_of(gateway, second.id) == "completed")

    audit = read_audit(far.folder / "machines" / "far" / "emulated.sqlite3")
    assert not brought_up_twice(audit)
    assert sum(line.action is Action.BOOT for line in audit) == 3  # two guests, and one of its own users
    for service in (gateway, far):
        with service.asking() as client:
            assert client.health().alive
    with gateway.asking() as client, pytest.raises(Conflict):
        client.sites.forget("far")


def far_job(*command: str, **more: Any) -> JobSpec:
    """A job that only the site has the software for."""
    return JobSpec(command=[*command], software=["far"], memory_mib=16, execution_s=10, **more)


@pytest.mark.soak
def test_a_job_runs_at_the_site_and_its_result_comes_back_though_both_are_killed(
    gateway: Service, far: Service
) -> None:
    far.start()
    with gateway.asking() as client:
        until(lambda: [node.name for node in client.nodes.list() if node.site == "far"] == ["far/n1"])
        job = client.jobs.submit(far_job("sh", "-c", "echo 42; sleep 5; exit 4"))
        until(lambda: client.jobs.get(job.id).state.value == "running")
        assert client.jobs.output(job.id).attempt == 1, "its manager is asked what it has written so far"
        planned = client.jobs.plan(far_job("true", outputs=["out"]))
        assert (planned.state.value, planned.what) == ("running", ""), "its files go there and back"
    far.kill()
    port = gateway.port
    gateway.kill()
    gateway.start(port)
    far.start()
    with gateway.asking() as client:
        until(lambda: client.jobs.get(job.id).is_over)
        result = client.jobs.result(job.id)
        assert (result.exit_status, result.output, result.is_whole) == (4, "42\n", True)
        assert [attempt.nodes for attempt in client.jobs.get(job.id).attempts] == [("far/n1",)]
    audit = read_audit(far.folder / "machines" / "far" / "emulated.sqlite3")
    assert sum(line.action is Action.BOOT for line in audit) == 1


class TestWhatIsTypedWrong:
    """One clear line, before anything is made."""

    def test_without_a_name_it_is_not_known_which_site_that_is(self, cli: Cli, tmp_path: Path) -> None:
        said = cli("site", "--gateway", "http://127.0.0.1:1", "--data", str(tmp_path / "data"))
        assert said.code == 2
        assert "--name and --slots" in said.err

    def test_a_token_is_not_shown_on_an_open_network(self, cli: Cli, tmp_path: Path) -> None:
        said = cli(*self.site(tmp_path, "http://gateway.example.org"))
        assert said.code == 2
        assert "https://" in said.err

    def test_without_a_token_the_gateway_would_not_listen(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LEASEHOLD_GATEWAY_TOKEN", raising=False)
        said = cli(*self.site(tmp_path, "http://127.0.0.1:1"))
        assert said.code == 2
        assert "--token-file" in said.err

    def test_a_token_file_that_is_not_there_is_named(self, cli: Cli, tmp_path: Path) -> None:
        said = cli(*self.site(tmp_path, "http://127.0.0.1:1"), "--token-file", str(tmp_path / "none"))
        assert said.code == 2
        assert "none" in said.err

    def site(self, folder: Path, gateway: str) -> tuple[str, ...]:
        return "site", "--gateway", gateway, "--name", "far", "--slots", "4", "--data", str(folder / "data")
