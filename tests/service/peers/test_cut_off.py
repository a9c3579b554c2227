"""Two real gateways, cut off from each other and joined again at random while leases pass both ways."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.service.peers.network import Network, has_namespaces, namespaces, proxies
from tests.waiting import until

from leasehold.client import Client, Lease, LeaseSpec, PeerSpec, RetryPolicy, Role, TokenSpec
from leasehold.gateway.peering import AskWhen
from leasehold.service.drivers.emulated.record import Action, brought_up_twice, read_audit

NAMES = ("west", "east")
SLOTS = {"west": 4, "east": 6}
CONFIG = """
[service]
host = "{host}"
port = {port}
url = "https://{address}"
tls_certificate = "{certificate}"
tls_key = "{certificate}"
check_every_s = 1
reconcile_every_s = 1
[gateway]
policy = "most-free"
try_elsewhere = true
[sharing]
without_agreement = "allow"

[[cluster]]
name = "{name}-site"
slots = {slots}
"""
ROUNDS = 6
SEED = 20


def certificate(path: Path, hosts: set[str]) -> Path:
    """Make a certificate for these addresses, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateways")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host)) for host in sorted(hosts)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    path.chmod(0o600)
    return path


class Side:
    """One gateway: where it is, its folder, and the process that serves it."""

    def __init__(self, folder: Path, network: Network, place: int, pem: Path) -> None:
        self.name = NAMES[place]
        self.folder = folder / self.name
        self.folder.mkdir()
        self.url_for_other = f"https://{network.address_for_other(place)}"
        self._url = f"https://{network.address_for_us(place)}"
        self._command = network.command(place)
        text = CONFIG.format(
            host=network.host(place), port=network.port(place), address=network.address_for_us(place),
            certificate=pem, name=self.name, slots=SLOTS[self.name],
        )  # fmt: skip
        (self.folder / "leasehold.toml").write_text(text)

    @contextmanager
    def running(self) -> Iterator[None]:
        command = [*self._command, sys.executable, "-m", "leasehold.cli.main", "serve"]
        command += ["--config", str(self.folder / "leasehold.toml"), "--data", str(self.folder)]
        with (
            (self.folder / "log").open("ab") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                until(self.is_ready, OSError)
                yield
            finally:
                process.kill()

    def is_ready(self) -> bool:
        with self.asking() as client:
            return client.health().ready

    @contextmanager
    def asking(self) -> Iterator[Client]:
        token = (self.folder / "admin.token").read_text().strip()
        with Client(self._url, token, retry=RetryPolicy(connect_tries=1)) as client:
            yield client

    def all_leases(self) -> list[Lease]:
        with self.asking() as client:
            return list(client.leases.list())

    def audit_path(self) -> Path:
        return self.folder / "machines" / f"{self.name}-site" / "emulated.sqlite3"


def agree(west: Side, east: Side) -> None:
    """Each is the other's peer, and asks it for what its own site cannot start now."""
    tokens = {}
    for side, other in ((west, east), (east, west)):
        with side.asking() as client:
            made = client.tokens.create(TokenSpec(consumer=f"peer/{other.name}", roles=[Role.PEER], sites=[other.name]))
            tokens[other.name] = made.token
    for side, other in ((west, east), (east, west)):
        with side.asking() as client:
            spec = PeerSpec(url=other.url_for_other, token=tokens[side.name], ask=AskWhen.NONE_CAN_NOW)
            client.peers.keep(other.name, spec)


def in_touch(side: Side) -> bool:
    with side.asking() as client:
        return all(peer.borrowing.status == peer.lending.status == "up" for peer in client.peers.list())


def is_quiet(side: Side) -> bool:
    return all(lease.is_over for lease in side.all_leases())


def submit(side: Side, draw: Random) -> int:
    vms = draw.randint(1, max(SLOTS.values()))
    kind = draw.choice(["suspendable", "cancelable", "migratable"])
    with side.asking() as client:
        spec = LeaseSpec.of(
            type=kind,
            vms=vms,
            duration_s=20,
            memory_mib=1,
            command=["sleep", f"{draw.uniform(0.2, 1.5):.1f}"],
        )
        lease = client.leases.submit(spec)
        if draw.random() < 0.15:
            client.leases.cancel(lease.id)
    return lease.id


@pytest.mark.storm
@pytest.mark.parametrize(
    "between",
    [
        pytest.param(namespaces, marks=pytest.mark.skipif(not has_namespaces(), reason="needs root")),
        pytest.param(proxies, marks=pytest.mark.skipif(has_namespaces(), reason="namespaces are better")),
    ],
)
def test_no_lease_is_lost_or_in_two_places_however_often_the_line_is_cut(
    between: Callable[[], AbstractContextManager[Network]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(SEED)
    with ExitStack() as stack:
        network = stack.enter_context(between())
        hosts = {
            one.partition(":")[0]
            for place in (0, 1)
            for one in (network.address_for_us(place), network.address_for_other(place))
        }
        pem = certificate(tmp_path / "gateways.pem", hosts)
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        monkeypatch.setenv("LEASEHOLD_CA", str(pem))
        sides = [Side(tmp_path, network, place, pem) for place in (0, 1)]
        for side in sides:
            stack.enter_context(side.running())
        agree(*sides)
        for side in sides:
            until(partial(in_touch, side), OSError)

        for _ in range(ROUNDS):
            asked = [submit(side, draw) for side in sides for _ in range(draw.randint(2, 4))]
            assert asked
            network.cut()
            time.sleep(draw.uniform(0.1, 1.5))  # this is what is tested: so long nobody hears anything
            network.join()
            time.sleep(draw.uniform(0.0, 1.0))
        for side in sides:
            until(partial(is_quiet, side), OSError)
        check(sides)


def check(sides: list[Side]) -> None:
    """Both tell the same of every lease, none went on, and no machine was made twice for one."""
    boots: Counter[tuple[str, int]] = Counter()
    went = 0
    leases = {side.name: {lease.id: lease for lease in side.all_leases()} for side in sides}
    for side, other in (sides, sides[::-1]):
        own = {i: lease for i, lease in leases[side.name].items() if not lease.consumer.startswith("peer/")}
        away = {i: lease for i, lease in own.items() if lease.site == other.name}
        guests = {i: lease for i, lease in leases[other.name].items() if lease.consumer == f"peer/{side.name}/operator"}
        went += len(away)
        assert all(lease.site in ("", f"{other.name}-site") for lease in guests.values()), "it went on"
        assert Counter(lease.state for lease in away.values() if lease.started_at) == Counter(
            lease.state for lease in guests.values() if lease.started_at
        )
        audit = read_audit(side.audit_path())
        assert not brought_up_twice(audit)
        boots.update((side.name, line.lease_id) for line in audit if line.action is Action.BOOT)
        assert all(boots[side.name, i] for i, lease in own.items() if lease.state == "completed" and i not in away)
        with side.asking() as client:
            [peer] = client.peers.list()
            assert client.health().alive
        assert peer.borrowing.open == peer.lending.open == 0
        assert peer.borrowing.offered == peer.borrowing.taken + peer.borrowing.refused
        assert peer.borrowing.offered >= len(away)
    assert went > ROUNDS / 2, "nothing was tested"
    assert max(boots.values()) == 1
