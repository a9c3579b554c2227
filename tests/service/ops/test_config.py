"""What `leasehold.toml` may say, what it means, and how it is told when it is wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from leasehold.configuration.terms import site_settings
from leasehold.jobs.settings import Matching
from leasehold.matching.nodes import Link
from leasehold.model.errors import InputError, InvalidField
from leasehold.routing.policies.selective import Selective, SelectiveParameters
from leasehold.service.auth.permissions import Permission
from leasehold.service.auth.principal import Role
from leasehold.service.config import ServiceConfig, SiteSpec, demo, one_site
from leasehold.service.config_file import (
    commented_toml,
    config_from_dict,
    fitting,
    load_config,
    without_password,
)
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.opening import make_gateway

Written = Callable[[str], Path]

CLUSTER = '[[cluster]]\nname = "ours"\nslots = 4\n'

EVERYTHING = """\
[service]
host = "0.0.0.0"
port = 9000
url = "https://leasehold.example.org/"
data = "kept"
store = "postgresql+psycopg://leasehold@db/leasehold"
tls_certificate = "tls/cert.pem"
tls_key = "tls/key.pem"
reference_mips = 1000
check_every_s = 5
reconcile_every_s = 2.5
start_within_s = 1800
shutdown_s = 0
probes = "open"
metrics = "token"

[limits]
body_kib = 32
open_requests_per_consumer = 50
requests_per_s = 0
burst = 7
streams_per_consumer = 2

[gateway]
policy = "most-free"
tick_s = 5

[sharing]
without_agreement = "refuse"
threshold = 10
top_n = 2

[jobs]
look_every_s = 5
fresh_for_s = 0
patience_s = 0
queue = "edf"
matching = "optimal"
best_fit_mib = 0
margin = 1.5
ways = [{ from = "store", to = "das3", mbps = 1000, delay_ms = 2 }]

[[domain]]
name = "vd1"
sites = ["das3"]

[defaults]
victims = "mov"

[defaults.overhead]
suspend_ms_per_gib = 1000

[[cluster]]
name = "das3"
slots = 64
speed_mips = 2000

[cluster.emulated]
boot_s = 1.5
fail_orders = 0.25

[[cluster]]
name = "das4"
slots = 32
local_policy = "easy"

[[issuer]]
url = "https://tokens.example.org"
audience = ["https://gateway.example.org", "https://wlcg.cern.ch/jwt/v1/any"]
profile = "wlcg"
sites = "das3"
clock_skew_s = 5

[issuer.scopes]
"compute.read" = ["lease.see", "changes.see"]

[issuer.grants."/physics"]
roles = ["member", "group-manager"]

[log]
format = "json"
level = "debug"
"""


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write the text of a configuration to a file."""

    def write(text: str) -> Path:
        path = tmp_path / "leasehold.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def complaint(written: Written) -> Callable[[str], str]:
    """Give what is said about a configuration, but for the folder that it is in."""

    def complain(text: str) -> str:
        path = written(text)
        with pytest.raises(InputError) as error:
            load_config(path)
        return str(error.value).removeprefix(f"{path.parent}/")

    return complain


class TestMeaning:
    def test_one_cluster_is_enough(self, written: Written) -> None:
        config = load_config(written('[[cluster]]\nname = "ours"\nslots = 4\n'))
        assert config.clusters[0].driver == "emulated"
        assert (config.service.host, config.service.port) == ("127.0.0.1", 8470)

    def test_every_table_is_read(self, written: Written, tmp_path: Path) -> None:
        config = load_config(written(EVERYTHING))
        assert config.service.reconcile_every_ms == 2_500
        assert config.service.start_within_ms == 1_800_000
        assert config.service.shutdown_ms == 0
        jobs, settings = config.jobs, config.jobs.settings(frozenset({"das3"}))
        assert (jobs.look_every_ms, jobs.margin) == (5_000, 1.5)
        assert (settings.queue, settings.matching, settings.best_fit) == ("edf", Matching.OPTIMAL, None)
        assert (settings.fresh_for_ms, settings.patience_ms, settings.sites) == (
            None,
            None,
            frozenset({"das3"}),
        )
        assert jobs.network().ways == {("store", "das3"): Link(2, 125_000_000)}
        assert config.service.url == "https://leasehold.example.org"
        assert config.service.data == tmp_path / "kept"
        assert config.limits.burst == 7
        assert config.gateway.policy == "most-free"
        assert config.log.level == "debug"
        das3, das4 = config.clusters
        assert das3.options == {"boot_s": 1.5, "fail_orders": 0.25}
        assert (das3.terms.victims, das3.terms.speed_mips) == ("mov", 2000)
        assert (das4.terms.local_policy, das4.terms.speed_mips) == ("easy", 1000)
        assert das4.terms.overhead.suspend_ms_per_gib == 1000

    def test_a_routing_policy_has_the_parameters_that_its_name_says(self, written: Written) -> None:
        config = load_config(written(f'gateway.policy = "selective:price=0.02"\n{CLUSTER}'))
        policy = make_gateway(config, {"ours": Capabilities()}, Random(1), "us").routing.policy
        assert isinstance(policy, Selective)
        assert policy.patience == SelectiveParameters(price=0.02)

    def test_an_issuer_says_what_its_tokens_are_worth(self, written: Written) -> None:
        (issuer,) = load_config(written(EVERYTHING)).issuers
        assert issuer.audience == ("https://gateway.example.org", "https://wlcg.cern.ch/jwt/v1/any")
        assert issuer.sites == {"das3"}
        assert issuer.scopes == {"compute.read": {Permission.LEASE_SEE, Permission.CHANGES_SEE}}
        assert issuer.grants["/physics"].roles == {Role.MEMBER, Role.GROUP_MANAGER}
        assert (issuer.clock_skew_s, issuer.keys_cached_s) == (5, 21_600)

    def test_a_path_may_name_variables(self, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/leasehold")
        text = '[service]\ntls_certificate = "$CREDENTIALS_DIRECTORY/cert"\ntls_key = "/key"\n'
        config = load_config(written(f'{text}[[cluster]]\nname = "ours"\nslots = 4\n'))
        assert config.service.tls_certificate == Path("/run/credentials/leasehold/cert")

    @pytest.mark.parametrize("config", [one_site(), demo()])
    def test_what_needs_no_file_would_be_accepted_from_one(self, config: ServiceConfig) -> None:
        assert config_from_dict(config.to_dict()) == config

    @pytest.mark.parametrize(
        ("host", "behind_tls_proxy", "setting", "needed"),
        [
            ("127.0.0.1", False, "auto", False),
            ("::1", False, "auto", False),
            ("localhost", False, "token", True),
            ("127.0.0.1", True, "auto", True),
            ("127.0.0.1", True, "open", False),
            ("10.0.0.1", True, "auto", True),
        ],
    )
    def test_who_may_look_without_a_token(
        self, host: str, setting: str, *, behind_tls_proxy: bool, needed: bool
    ) -> None:
        service = replace(one_site().service, host=host, behind_tls_proxy=behind_tls_proxy)
        assert service.needs_token(setting) is needed


class TestWrongInput:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                'host = "0.0.0.0"',
                "leasehold.toml:2: service.host: got '0.0.0.0', expected a loopback address",
            ),
            (
                'tls_key = "key"',
                "leasehold.toml:1: service.tls_certificate: got '', expected a file: a certificate",
            ),
            (
                "port = 70000",
                "leasehold.toml:2: service.port: got 70000, expected a whole number from 0 to 65535",
            ),
            (
                'url = "leasehold"',
                "leasehold.toml:2: service.url: got 'leasehold', expected an address such as",
            ),
            ("prot = 70", "leasehold.toml:2: service.prot: got 'prot', expected one of"),
            ("start_within_s = 0.5", "leasehold.toml:2: service.start_within_s: got 0.5"),
            ("start_within_s = 86401", "leasehold.toml:2: service.start_within_s: got 86401"),
            ("reconcile_every_s = 0", "leasehold.toml:2: service.reconcile_every_s: got 0"),
            ('data = "$NO_SUCH_VARIABLE/x"', "leasehold.toml:2: service.data: got '$NO_SUCH_VARIABLE/x'"),
            ('metrics = "everybody"', "leasehold.toml:2: service.metrics: got 'everybody'"),
        ],
    )
    def test_in_the_service(self, text: str, message: str, complaint: Callable[[str], str]) -> None:
        cluster = '[[cluster]]\nname = "ours"\nslots = 4\n'
        assert complaint(f"[service]\n{text}\n{cluster}").startswith(message)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("slots = 4", "leasehold.toml:1: cluster[0].name: missing"),
            ('name = "a"\nslots = 0', "leasehold.toml:3: cluster[0].slots: got 0"),
            ('name = "a/b"\nslots = 4', "leasehold.toml:2: cluster[0].name: got 'a/b'"),
            (
                'name = "a"\nslots = 4\ndriver = "emulate"',
                "leasehold.toml:4: cluster[0].driver: got 'emulate'",
            ),
            (
                'name = "a"\nslots = 4\n[cluster.emulated]\nboots_s = 1',
                "leasehold.toml:5: cluster[0].emulated.boots_s: got 'boots_s'",
            ),
            (
                'name = "a"\nslots = 4\n[cluster.emulated]\nfail_orders = 2',
                "leasehold.toml:5: cluster[0].emulated.fail_orders: got 2",
            ),
            (
                'name = "a"\nslots = 4\nresources = { matlab = 2 }',
                "leasehold.toml:4: cluster[0].resources.matlab: got 'matlab', expected cpus, memory_mib, gpu_milli,",
            ),
            (
                'name = "a"\nslots = 4\nemulated = 3',
                "leasehold.toml:4: cluster[0].emulated: got 3, expected a table",
            ),
            (
                'name = "a"\nslots = 4\n[[cluster]]\nname = "a"\nslots = 5',
                "leasehold.toml:5: cluster[1].name: got 'a', expected a name that no other cluster has",
            ),
        ],
    )
    def test_in_a_cluster(self, text: str, message: str, complaint: Callable[[str], str]) -> None:
        assert complaint(f"[[cluster]]\n{text}\n").startswith(message)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "leasehold.toml: cluster: missing, expected at least one [[cluster]]"),
            ('[gateway]\nmoments = "told"', "leasehold.toml:2: gateway.moments: got 'told', expected learnt"),
            ('[log]\nlevel = "loud"', "leasehold.toml:2: log.level: got 'loud'"),
            (
                "[limits]\nbody_kib = 31",
                "leasehold.toml:2: limits.body_kib: got 31, expected a whole number from 32 to 1048576",
            ),
            ("[service", "leasehold.toml:1: is not valid TOML"),
            ('[sharing]\nthreshold = "light"', "leasehold.toml:2: sharing.threshold: got 'light'"),
            ("[sharing]\nstarts_at = 2026-01-01T00:00:00Z", "leasehold.toml:2: sharing.starts_at: got"),
            (
                '[[domain]]\nname = "das3"\nsites = ["das3"]\n[[cluster]]\nname = "das3"\nslots = 4',
                "leasehold.toml:2: domain[0].name: got 'das3', expected a name that no site has",
            ),
        ],
    )
    def test_elsewhere(self, text: str, message: str, complaint: Callable[[str], str]) -> None:
        assert complaint(text).startswith(message)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("url", '"http://tokens.example.org"', "leasehold.toml:2: issuer[0].url: got 'http://tokens.exa"),
            ("audience", "[]", "leasehold.toml:3: issuer[0].audience: got [], expected at least one name"),
            (
                "audience",
                "[3]",
                "leasehold.toml:3: issuer[0].audience: got [3], expected a text in quotes, or",
            ),
            ("profile", '"oidc"', "leasehold.toml:4: issuer[0].profile: got 'oidc'"),
            ("roles", '["membre"]', "leasehold.toml:5: issuer[0].roles: got 'membre', expected one of"),
            ("clock_skew_s", "5000", "leasehold.toml:5: issuer[0].clock_skew_s: got 5000"),
            (
                "scopes",
                '{ read = ["lease.look"] }',
                "leasehold.toml:5: issuer[0].scopes.read: got 'lease.look'",
            ),
            (
                "grants",
                '{ "/g" = { roles = ["peer"] } }',
                "leasehold.toml:5: issuer[0].grants./g.sites: got []",
            ),
        ],
    )
    def test_in_an_issuer(self, key: str, value: str, message: str, complaint: Callable[[str], str]) -> None:
        required = {"url": '"https://tokens.example.org"', "audience": '"us"', "profile": '"wlcg"'}
        issuer = "\n".join(f"{name} = {text}" for name, text in {**required, key: value}.items())
        assert complaint(f'[[issuer]]\n{issuer}\n[[cluster]]\nname = "ours"\nslots = 4\n').startswith(message)

    def test_what_options_change_is_checked_again(self) -> None:
        config = one_site()
        with pytest.raises(InvalidField, match="loopback"):
            fitting(replace(config, service=replace(config.service, host="0.0.0.0")))  # noqa: S104 - refused


class TestWrittenDown:
    def test_reads_as_the_same(self, written: Written) -> None:
        config = load_config(written(EVERYTHING))
        assert load_config(written(commented_toml(config))) == config

    def test_every_key_is_explained(self, written: Written) -> None:
        shown = commented_toml(load_config(written(EVERYTHING))).splitlines()
        sites = [number for number, line in enumerate(shown) if line == "[[cluster]]"]
        lines = [line for line in shown[: sites[0]] if " = " in line]
        assert [line for line in lines if " # " not in line] == []

    def test_what_a_kind_of_machines_is_told_is_explained_too(self, written: Written) -> None:
        shown = commented_toml(load_config(written(EVERYTHING)))
        assert "\n[cluster.emulated]\nboot_s = 1.5                             # boot time\n" in shown

    def test_the_password_of_the_store_is_left_out(self) -> None:
        assert without_password("postgresql+psycopg://a:s3cret@db:5432/x") == "postgresql+psycopg://a@db:5432/x"


class TestNonPreemptableGuests:
    """Nobody's machines are lent for good unless their owner has said how many, and for how long."""

    CLUSTER: ClassVar[dict[str, object]] = {"name": "a", "slots": 8}

    def test_there_are_none_unless_the_owner_says_so(self) -> None:
        (site,) = config_from_dict({"cluster": [self.CLUSTER]}).clusters
        assert site_settings("a", 8, site.terms).non_preemptable_share_vms == 0

    def test_nor_on_any_site_that_is_made_without_a_file(self) -> None:
        for config in (one_site(), demo(), ServiceConfig(clusters=(SiteSpec("a", 8),))):
            for site in config.clusters:
                assert site_settings("a", site.slots, site.terms).non_preemptable_share_vms == 0

    @pytest.mark.parametrize("where", ["cluster", "defaults"])
    def test_how_many_is_not_enough(self, where: str) -> None:
        keys = {"non_preemptable_share": 0.5}
        own, defaults = (keys, {}) if where == "cluster" else ({}, keys)
        with pytest.raises(InvalidField) as raised:
            config_from_dict({"cluster": [self.CLUSTER | own], "defaults": defaults})
        assert raised.value.field == "cluster[0].non_preemptable_max_s"

    def test_both_are(self) -> None:
        keys = {"non_preemptable_share": 0.5, "non_preemptable_max_s": 60}
        (site,) = config_from_dict({"cluster": [self.CLUSTER | keys]}).clusters
        settings = site_settings("a", 8, site.terms)
        assert (settings.non_preemptable_share_vms, settings.non_preemptable_max_ms) == (4, 60_000)


def test_a_quota_of_outputs_has_room_for_one_of_them() -> None:
    ours = {"cluster": [{"name": "ours", "slots": 8}], "jobs": {"output_kib": 2_049}}
    with pytest.raises(
        InvalidField, match=r"limits\.output_mib_per_consumer: got 2, expected 0, or at least the 2049 KiB"
    ):
        config_from_dict(ours | {"limits": {"output_mib_per_consumer": 2}})
    for quota in (0, 3):
        config = config_from_dict(ours | {"limits": {"output_mib_per_consumer": quota}})
        assert config.limits.output_mib_per_consumer == quota
