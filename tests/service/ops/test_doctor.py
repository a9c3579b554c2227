"""What the doctor finds, and that it changes nothing."""

import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from leasehold.configuration.tables import DomainSpec
from leasehold.service.auth.issuers import Profile, TrustedIssuer
from leasehold.service.auth.tokens import new_text
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.doctor import Finding, Severity, examine, gateway, machine, ok
from leasehold.service.doctor.gateway import GATEWAY, Subject, checks_of
from leasehold.service.doctor.machine import INSTALLED, MACHINE, Requirement
from leasehold.service.drivers.qemu.limits import find_hierarchy
from leasehold.service.serving import DataFolder
from leasehold.service.store.store import open_store
from leasehold.service.store_status import Contents, StoreStatus

OK, NOTE, WARNING, PROBLEM = Severity


def subject(folder: Path, config_file: Path | None = None, **service: Any) -> Subject:
    config = ServiceConfig((SiteSpec("das3", 8),), ServiceSpec(**{"port": 0, **service}))
    return Subject(config, config_file, DataFolder(folder, folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    return path


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


class TestEveryCheck:
    @pytest.mark.parametrize("check", [*INSTALLED.values(), *MACHINE.values()])
    def test_of_the_machine_says_something(self, check: Callable[[], list[Finding]]) -> None:
        assert all(finding.text for finding in check())

    @pytest.mark.parametrize("name", GATEWAY)
    def test_of_a_gateway_that_was_never_started_finds_nothing_to_mend(self, name: str, tmp_path: Path) -> None:
        before = set(tmp_path.rglob("*"))
        findings = checks_of(subject(tmp_path / "data"))[name]()
        assert {finding.severity for finding in findings} <= {OK, NOTE}
        assert set(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize("name", GATEWAY)
    def test_names_a_cure_for_whatever_is_not_well(self, name: str, tmp_path: Path) -> None:
        findings = checks_of(subject(tmp_path / "data"))[name]()
        assert all(bool(finding.cure) is (finding.severity is not OK) for finding in findings)

    def test_that_fails_itself_keeps_no_other_from_being_made(self) -> None:
        def stumbles() -> list[Finding]:
            raise ZeroDivisionError

        told = list(examine("machine", {"one": stumbles, "two": lambda: [ok("fine")]}))
        assert [(one.check, one.finding.severity) for one in told] == [("one", PROBLEM), ("two", OK)]


class TestInstalled:
    def test_everything_is_there_where_tests_run(self) -> None:
        assert only(machine.check_core()).severity is OK
        assert machine.service_is_installed()

    @pytest.mark.parametrize(
        ("requirement", "is_met"),
        [
            (Requirement("", "typer", "0.1"), True),
            (Requirement("", "typer", "999.0"), False),
            (Requirement("", "no-such-package"), False),
        ],
    )
    def test_a_requirement_is_met_by_what_is_new_enough(self, requirement: Requirement, *, is_met: bool) -> None:
        assert requirement.is_met is is_met

    def test_it_knows_the_extras(self) -> None:
        assert {one.part for one in machine.requirements()} >= {"", "client", "report", "service"}


class TestMachine:
    def test_without_virtualisation(self, tmp_path: Path) -> None:
        assert only(machine.check_kvm(tmp_path / "kvm")).severity is NOTE

    def test_control_groups_that_lack_something(self, tmp_path: Path) -> None:
        controllers, nowhere = tmp_path / "cgroup.controllers", tmp_path / "nowhere"
        (tmp_path / "cgroup.procs").touch()
        controllers.write_text("cpu io pids\n")
        assert "lacks memory" in only(machine.check_cgroups(find_hierarchy(tmp_path, nowhere))).text
        controllers.write_text("cpu io memory pids\n")
        assert only(machine.check_cgroups(find_hierarchy(tmp_path, nowhere))).severity is OK

    def test_a_program_that_is_not_there_is_named(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        finding = only(machine.check_slurm())
        assert finding.severity is NOTE
        assert "no sbatch, squeue, scancel" in finding.text


class TestFiles:
    def test_a_password_that_others_can_read(self, folder: Path, tmp_path: Path) -> None:
        file = tmp_path / "leasehold.toml"
        file.touch(mode=0o644)
        looked_at = subject(folder, file, store="postgresql+psycopg://leasehold:s3cret@db/leasehold")
        finding = only(gateway.check_configuration(looked_at))
        assert finding.severity is PROBLEM
        assert "s3cret" not in finding.text + finding.cure
        file.chmod(0o600)
        assert only(gateway.check_configuration(looked_at)).severity is OK

    @pytest.mark.parametrize(("mode", "severity"), [(0o700, OK), (0o750, WARNING), (0o755, WARNING)])
    def test_a_data_folder_that_others_can_enter(self, folder: Path, mode: int, severity: Severity) -> None:
        folder.chmod(mode)
        assert only(gateway.check_data_folder(subject(folder))).severity is severity

    def test_a_data_folder_that_is_none(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.touch()
        assert only(gateway.check_data_folder(subject(file))).severity is PROBLEM

    @pytest.mark.parametrize(
        ("content", "mode", "severity"),
        [
            (new_text(), 0o600, OK),
            (new_text(), 0o644, PROBLEM),
            ("hello", 0o600, PROBLEM),
        ],
        ids=["secret", "open to others", "no token"],
    )
    def test_a_token_file(self, folder: Path, content: str, mode: int, severity: Severity) -> None:
        token = folder / "admin.token"
        token.write_text(content)
        token.chmod(mode)
        assert only(gateway.check_token(subject(folder))).severity is severity

    @pytest.mark.parametrize(("free_mib", "severity"), [(50, PROBLEM), (500, WARNING), (5_000, OK)])
    def test_room_on_the_disk(self, folder: Path, free_mib: int, severity: Severity) -> None:
        assert gateway._room(free_mib, folder).severity is severity


class TestNetwork:
    def test_a_port_that_somebody_else_has(self, folder: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as other:
            port = other.getsockname()[1]
            finding = only(gateway.check_port(subject(folder, port=port)))
            assert finding.severity is PROBLEM
            (folder / "url").write_text(f"http://127.0.0.1:{port}\n")
            assert only(gateway.check_port(subject(folder, port=port))).severity is OK

    @pytest.mark.parametrize(
        ("valid", "severity"),
        [(timedelta(days=90), OK), (timedelta(days=5), WARNING), (timedelta(days=-1), PROBLEM)],
    )
    def test_how_long_a_certificate_is_valid(
        self, folder: Path, valid: timedelta, severity: Severity, key_pair: Callable[..., tuple[Path, Path]]
    ) -> None:
        certificate, key = key_pair(valid)
        findings = gateway.check_tls(subject(folder, tls_certificate=certificate, tls_key=key))
        assert [finding.severity for finding in findings] == [OK, severity]

    def test_a_key_that_others_can_read(self, folder: Path, key_pair: Callable[..., tuple[Path, Path]]) -> None:
        certificate, key = key_pair()
        key.chmod(0o640)
        findings = gateway.check_tls(subject(folder, tls_certificate=certificate, tls_key=key))
        assert findings[0].severity is WARNING

    def test_a_key_that_is_not_there(self, folder: Path, tmp_path: Path) -> None:
        missing = tmp_path / "tls.key"
        finding = only(gateway.check_tls(subject(folder, tls_certificate=missing, tls_key=missing)))
        assert finding.severity is PROBLEM

    def test_an_issuer_that_does_not_answer(self, folder: Path) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            issuer = TrustedIssuer(f"http://127.0.0.1:{port}", ("us",), Profile.WLCG)
            looked_at = subject(folder)
            looked_at = replace(looked_at, config=replace(looked_at.config, issuers=(issuer,)))
            finding = only(gateway.check_issuers(looked_at))
        assert finding.severity is WARNING
        assert ".well-known/openid-configuration: no answer" in finding.text


class TestStore:
    @pytest.fixture
    def made(self, folder: Path) -> Subject:
        made = subject(folder)
        open_store(made.store_url).close()
        return made

    def test_that_is_well(self, made: Subject) -> None:
        findings = gateway.check_store(made)
        assert {finding.severity for finding in findings} == {OK}
        assert any("no gateway is using it" in finding.text for finding in findings)

    def test_that_is_in_use(self, made: Subject) -> None:
        with open_store(made.store_url) as store:
            store.acquire_writer_lock()
            assert any("a gateway is using it" in finding.text for finding in gateway.check_store(made))

    def test_that_is_no_store(self, made: Subject, folder: Path) -> None:
        (folder / "leasehold.db").write_bytes(b"no database" * 100)
        assert only(gateway.check_store(made)).severity is PROBLEM

    def test_that_is_older_than_the_program(self, folder: Path) -> None:
        looked_at = subject(folder)
        (folder / "leasehold.db").touch()
        assert gateway.check_store(looked_at)[0].severity is NOTE

    def test_that_is_an_empty_database_of_a_server(self, folder: Path, postgres_url: str) -> None:
        findings = gateway.check_store(subject(folder, store=postgres_url))
        assert [(one.severity, one.text.split("/")[-1]) for one in findings][1:] == [
            (OK, "no gateway is using it"),
            (OK, "this machine's clock agrees with the store"),
        ]
        assert findings[0].severity is NOTE
        assert "has no tables yet" in findings[0].text

    def test_on_a_server_that_does_not_answer(self, folder: Path) -> None:
        looked_at = subject(folder, store="postgresql+psycopg://leasehold:s3cret@127.0.0.1:1/leasehold")
        finding = only(gateway.check_store(looked_at))
        assert finding.severity is PROBLEM
        assert "s3cret" not in finding.text

    def test_with_leases_at_a_site_that_is_gone(self, made: Subject) -> None:
        left = {("das9", "running"): 1, ("", "held"): 3, ("das3", "waiting"): 1}
        finding = only(gateway._left_behind(made, Contents(left, last_seq=7)))
        assert finding.severity is PROBLEM
        assert "das9" in finding.text

    def test_with_more_held_than_a_site_has(self, made: Subject) -> None:
        site = made.config.clusters[0]
        held = Contents({}, 7, frozenset(), {site.name: site.slots + 2, "elsewhere": 99})
        finding = only(gateway._shrunk(made, held))
        assert finding.severity is WARNING
        assert f"{site.slots + 2} VMs are held at {site.name}, which has {site.slots} slots" in finding.text
        assert "preemptable guests are preempted" in finding.cure
        assert gateway._shrunk(made, Contents({}, 7, frozenset(), {site.name: site.slots})) == []

    def test_with_a_domain_of_a_site_that_never_came(self, made: Subject) -> None:
        here = made.config.clusters[0].name
        domains = (DomainSpec("das", (here, "jena", "lyno")),)
        config = replace(made.config, domains=domains)
        finding = only(gateway._strangers(replace(made, config=config), frozenset({"jena"})))
        assert finding.severity is WARNING
        assert "the site lyno of the domain das is not configured" in finding.text

    def test_that_is_not_there_yet_with_a_domain_of_a_site_that_never_came(self, folder: Path) -> None:
        made = subject(folder)
        config = replace(made.config, domains=(DomainSpec("das", ("lyno",)),))
        findings = gateway.check_store(replace(made, config=config))
        assert [finding.severity for finding in findings] == [NOTE, WARNING]
        assert "lyno" in findings[1].text

    @pytest.mark.parametrize(
        ("kind", "ahead_ms", "severity"),
        [
            ("sqlite", -86_400_000, OK),  # the last line may have been written long ago
            ("sqlite", 60_000, WARNING),
            ("postgresql", -60_000, WARNING),
            ("postgresql", 1_000, OK),
        ],
    )
    def test_whose_clock_is_another(self, kind: str, ahead_ms: int, severity: Severity) -> None:
        status = StoreStatus(f"{kind}://x", "0001", in_use=False, latest_ms=0, contents=None)
        finding = gateway._clock(ahead_ms, status)
        assert finding.severity is severity
        assert "-" not in finding.text
