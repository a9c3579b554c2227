"""A site that is added in what-if is as its file says; whatever is wrong with that file is one line."""

import json
from pathlib import Path

import pytest
from tests.forecasting.worlds import terms

from leasehold.configuration.tables import DomainSpec
from leasehold.forecasting.futures import Forecast
from leasehold.forecasting.snapshot import Snapshot, rebuild
from leasehold.forecasting.what_if import AddDescribedSite, compare
from leasehold.model.agreement import Agreement, NoLimit
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.event import Submitted
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.model.resources import NodeResources
from leasehold.service.config import CLUSTER
from leasehold.service.config_file import load_config
from leasehold.service.what_if import read_changes, site_of_file

LYON = """
[[cluster]]
name = "lyon"
slots = 16
local_policy = "easy"
victims = "pareto"
non_preemptable_share = 0.25
non_preemptable_max_s = 3600
resources = { "licence:matlab" = 3 }

[cluster.emulated]
suspend = false
images = ["pytorch"]
nodes = [{ count = 4, software = ["python3 3.11.2"] }]

[[domain]]
name = "south"
sites = ["lyon", "nice"]

[[agreement]]
name = "lend-half"
provider = "lyon"
consumer = "*"
kind = "no-limit"
lending_limit = 8
"""


def _added(tmp_path: Path, text: str, name: str = "", reference_mips: int = 1) -> AddDescribedSite:
    file = tmp_path / "site.toml"
    file.write_text(text, encoding="utf-8")
    [change] = read_changes([json.loads(json.dumps(site_of_file(file, name)))], reference_mips)
    assert isinstance(change, AddDescribedSite)
    return change


def test_a_site_is_as_its_file_says(tmp_path: Path) -> None:
    added = _added(tmp_path, LYON)
    site = added.described
    (tmp_path / "own.toml").write_text(LYON.partition("[[agreement]]")[0], encoding="utf-8")
    [configured] = load_config(tmp_path / "own.toml").clusters
    assert (site.name, site.slots, site.terms, site.resources) == (
        "lyon",
        16,
        configured.terms,
        {"licence:matlab": 3},
    )
    assert (site.can_suspend, site.can_migrate, site.images) == (False, True, ("pytorch",))
    assert added.agreements == (Agreement("lend-half", "lyon", "*", NoLimit(), lending_limit=8),)
    assert added.domain == "south"


def test_a_site_of_nodes_is_planned_by_them(tmp_path: Path) -> None:
    text = '[[cluster]]\nname = "n"\nnodes = [{ count = 2, cores = 8, memory_mib = 4096 }]\n'
    site = _added(tmp_path, text).described
    assert site.nodes == (NodeResources("n1", 8, 4096), NodeResources("n2", 8, 4096))
    assert site.slots == 16


def test_without_a_speed_it_is_as_fast_as_durations_refer_to(tmp_path: Path) -> None:
    text = '[[cluster]]\nname = "n"\nslots = 2\n'
    assert _added(tmp_path, text, reference_mips=600).described.terms.speed_mips == 600
    assert _added(tmp_path, f"{text}speed_mips = 900\n", reference_mips=600).described.terms.speed_mips == 900


def test_of_several_sites_that_of_the_name_is_meant(tmp_path: Path) -> None:
    text = "".join(f'[[cluster]]\nname = "{name}"\nslots = {slots}\n' for name, slots in (("a", 2), ("b", 3)))
    assert _added(tmp_path, text, "b").described.slots == 3
    for name in ("", "c"):
        with pytest.raises(InputError, match="expected one of a, b"):
            _added(tmp_path, text, name)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("slots = 16", "slots = 0", "site.toml:4: cluster[0].slots: got 0"),
        ('"easy"', '"eazy"', "site.toml:5: cluster[0].local_policy: got 'eazy'"),
        ("victims", "victim", "site.toml:6: cluster[0].victim"),
        ("suspend = false", "suspend = 1", "site.toml:12: cluster[0].emulated.suspend: got 1, expected true or false"),
        ('provider = "lyon"', 'provider = "paris"', "site.toml:22: agreement[0].provider: got 'paris'"),
        ("lending_limit = 8", "lending_limit = -8", "site.toml:25: agreement[0].lending_limit: got -8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(InputError) as found:
        _added(tmp_path, LYON.replace(old, new))
    assert problem in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"add_site": {"name": "x"}}, "changes.0.add_site.slots: missing"),
        ({"add_site": {"name": "x", "slots": 3, "victims": "mine.py:F"}}, "changes.0.add_site.victims"),
        ({"add_site": {"name": "x", "slots": 3, "colour": 3}}, "changes.0.add_site.colour"),
        ({"add_site": {"name": "x", "slots": 3, "machines": {"fly": True}}}, "changes.0.add_site.machines.fly"),
        ({"add_site": {"name": "x", "slots": 3}, "slots": 4}, "changes.0.slots"),
        ({"add_site": {"name": "x", "slots": 3}, "agreement": [{"name": "a"}]}, "changes.0.agreement[0].provider"),
        ({"add_site": 3, "slots": 4}, "changes.0.add_site"),
    ],
)
def test_what_is_asked_for_is_checked(change: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidField) as found:
        read_changes([change], 1)
    assert str(found.value).startswith(problem)


def _snapshot() -> Snapshot:
    return terms("most-free", free_room=True)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    for name in ("alpha", "west"):
        added = _added(tmp_path, f'[[cluster]]\nname = "{name}"\nslots = 2\n')
        with pytest.raises(InvalidField, match=f"add_site: got '{name}', expected a name that no site has"):
            added.apply(_snapshot())


def test_it_joins_a_domain_that_is_there_and_one_that_is_not(tmp_path: Path) -> None:
    text = '[[cluster]]\nname = "n"\nslots = 2\n[[domain]]\nname = "DOMAIN"\nsites = ["n"]\n'
    old = _added(tmp_path, text.replace("DOMAIN", "west")).apply(_snapshot())
    assert old.domains == (DomainSpec("west", ("alpha", "beta", "n")),)
    new = _added(tmp_path, text.replace("DOMAIN", "south")).apply(_snapshot())
    assert new.domains == (DomainSpec("west", ("alpha", "beta")), DomainSpec("south", ("n",)))


def test_its_owner_lends_no_more_than_its_agreements_let(tmp_path: Path) -> None:
    """The new site is the only one that is wide enough, and lends 8 of its 16 VMs."""
    gateway = rebuild(_added(tmp_path, LYON).apply(_snapshot()))
    asked = [Submitted(Request(number, LeaseType.CANCELABLE, vms, 1000, 0, 0)) for number, vms in ((1, 7), (2, 8))]
    gateway.handle(asked, 0)
    assert [(gateway.leases[n].site, gateway.leases[n].state) for n in (1, 2)] == [
        ("lyon", LeaseState.STARTING),
        ("", LeaseState.HELD),
    ]


def test_what_waits_for_a_site_as_wide_as_it_starts_there(tmp_path: Path) -> None:
    snapshot = _snapshot()
    found = compare(snapshot, [_added(tmp_path, LYON)], Forecast(replications=2, horizon_ms=60_000))
    assert found.of("lyon", "guests_started").as_is == 0
    assert {one.site for one in found.figures} == {"", "alpha", "beta", "gamma", "lyon"}


def test_keys_of_a_site_are_those_of_its_table() -> None:
    """So that what a file may say in future is thought of here, too."""
    declared = set(CLUSTER.by_name())
    assert declared == {
        *("name", "slots", "driver", "resources", "nodes"),
        *("offer_every_s", "offer_below", "offer_again_above"),
    }
