"""Guests under agreements: nobody has more than was agreed, and the books say what the machines did."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.simulation.agreed import Tables, most_at_a_time, played, segments_of, used_slot_ms
from tests.simulation.worlds import DAS2, busy

from leasehold.analysis.metrics import by_agreement, held_by_agreements, totals
from leasehold.analysis.report.contents import what_happened
from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import validate
from leasehold.gateway.gateway import Gateway
from leasehold.model.agreement import Agreement
from leasehold.model.reason import Reason
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import load_scenario
from leasehold.simulation.scenario.spec import Scenario

DOMAIN = [{"name": "das", "sites": ["a", "b"]}]
LONG_S = 10_000_000
AGREEMENTS: list[dict[str, Any]] = [
    {"name": "atlas", "provider": "das", "consumer": "atlas", "kind": "no-limit", "lending_limit": 9},
    {"name": "atlas-production", "provider": "a", "consumer": "atlas/production", "kind": "no-limit"}
    | {"lending_limit": 5, "parent": "atlas"},
    {"name": "cms", "provider": "das", "consumer": "cms", "kind": "commitment"}
    | {"epoch_share": 0.2, "epoch_s": 1800, "burst_share": 0.4, "burst_s": 300},
    {"name": "books-of-all", "provider": "das", "consumer": "*", "kind": "decay"}
    | {"share": 1, "window_s": LONG_S, "factors": [1]},
    {"name": "books-of-atlas", "provider": "das", "consumer": "atlas", "kind": "decay"}
    | {"share": 1, "window_s": LONG_S, "factors": [1]},
]
GUESTS = [
    {"name": "production", "consumer": "atlas/production/simulation", **DAS2, "alpha": 60.0},
    {"name": "analysis", "consumer": "atlas/analysis", **DAS2, "alpha": 90.0},
    {"name": "cms", **DAS2, "alpha": 60.0},
]


def agreed(agreements: list[dict[str, Any]] = AGREEMENTS, **keys: Any) -> Scenario:
    own = busy().to_dict()["stream"][:2]
    values = {"domain": DOMAIN, "agreement": agreements, "stream": [*own, *GUESTS]}
    return busy(**(values | keys))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load(run_scenario(agreed(), tmp_path_factory.mktemp("runs") / "agreed", check=True).path)


def test_nobody_is_lent_more_at_a_time_than_was_agreed(run: Run) -> None:
    tables = {"leases": run.leases, "segments": run.segments}
    assert most_at_a_time(segments_of(tables, "atlas", ["a", "b"])) == 9
    assert most_at_a_time(segments_of(tables, "atlas/production", ["a"])) <= 5
    assert most_at_a_time(segments_of(tables, "cms", ["a", "b"])) > 9


def test_the_checker_that_knows_nothing_of_agreements_finds_nothing_wrong(run: Run) -> None:
    assert validate(run) == []


def test_a_decision_says_which_agreement_is_the_reason_and_its_numbers(run: Run) -> None:
    breaches = run.decisions.filter(pl.col("agreement").is_not_null())
    assert set(breaches["agreement"]) == {"atlas", "atlas-production", "cms"}
    at_a_time = breaches.filter(reason=Reason.CONCURRENCY_LIMIT_REACHED, agreement="atlas").row(0, named=True)
    assert (at_a_time["provider"], at_a_time["account"], at_a_time["resource"]) == ("das", "atlas", "cpus")
    assert at_a_time["used"] <= at_a_time["allowed"] == 9
    shares = breaches.filter(reason=Reason.SHARE_EXHAUSTED)
    assert set(shares["agreement"]) == {"cms"}
    assert (shares["used"] >= shares["allowed"]).all()
    assert set(shares["window_ms"]) <= {1_800_000, 300_000}


def test_other_decisions_name_no_agreement(run: Run) -> None:
    others = run.decisions.filter(pl.col("agreement").is_null())
    columns = ["provider", "account", "resource", "used", "allowed", "window_ms"]
    assert others.select(columns).null_count().row(0) == (others.height,) * len(columns)


def test_the_report_counts_whom_agreements_held_back(run: Run) -> None:
    counted = by_agreement(run)
    assert counted["leases"].to_list() == sorted(counted["leases"], reverse=True)
    assert held_by_agreements(run) <= counted["leases"].sum()
    answers = {paragraph.question: paragraph.answer for paragraph in what_happened(run, totals(run))}
    told = answers["Which guests did agreements limit?"]
    assert f"{held_by_agreements(run)} guests" in told
    assert "under “atlas” (atlas at das)" in told


def test_a_folder_of_before_there_were_agreements_is_read(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path, dirs_exist_ok=True)
    old = run.decisions.select(pl.all().exclude("agreement", "provider", "account", "resource", "used"))
    old.write_parquet(tmp_path / "decisions.parquet" / "00000.parquet")
    assert load(tmp_path).decisions["used"].is_null().all()
    assert held_by_agreements(load(tmp_path)) == 0


def test_who_has_no_agreement_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    only = [one for one in AGREEMENTS if one["consumer"] == "cms"]
    scenario = agreed(only, sharing={"without_agreement": "refuse"})
    leases = load(run_scenario(scenario, tmp_path / "run", check=True, baseline=False).path).leases
    refused = leases.filter(reason=Reason.NO_AGREEMENT)
    assert set(refused["consumer"]) == {"atlas/production/simulation", "atlas/analysis"}
    assert not refused.filter(origin="local").height


# --- the books --------------------------------------------------------------------------------------------


def assert_the_books_are_right(gateway: Gateway, tables: Tables, end_ms: int, books: list[Agreement]) -> None:
    sharing = gateway.quotas.sharing
    assert sharing is not None
    assert books
    for agreement in books:
        key = (agreement.consumer, agreement.provider, "cpus")
        sites = sharing.providers.sites_of(agreement.provider)
        held = segments_of(tables, agreement.consumer, sites)
        assert sharing.ledger.used(key, 0, end_ms) == used_slot_ms(held) > 0, agreement.consumer
        assert sharing.ledger.level(key) == sharing.grants.units(key) == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_ledger_is_the_sum_of_the_segments(seed: int, tmp_path: Path) -> None:
    scenario = agreed(seed=seed)
    gateway, tables, end_ms = played(scenario, tmp_path / "run")
    books = [one for one in scenario.agreements if one.name == "books-of-atlas"]
    assert_the_books_are_right(gateway, tables, end_ms, books)
    sharing = gateway.quotas.sharing
    assert sharing is not None
    guests = tables["leases"].filter(origin="external").select("lease_id")
    everybody = tables["segments"].join(guests, on="lease_id")
    assert sharing.ledger.used(("*", "das", "cpus"), 0, end_ms) == used_slot_ms(everybody)


LCG_UNDER_AGREEMENTS = """
name = "lcg-shared"

[gateway]
policy = "least-in-flight"

[[cluster]]
name = "cern"
slots = 400

[[cluster]]
name = "nikhef"
slots = 150

[[cluster]]
name = "ral"
slots = 150

[[domain]]
name = "north"
sites = ["nikhef", "ral"]

[[stream]]
name = "LCG"
log = "LCG-2005-1.swf.gz"
external = true
types = { suspendable = 1.0 }
consumer_by = "vo-{group}/{user}"
end_s = 86_400
"""
VOS = {"cern": 40, "north": 25}


@pytest.mark.traces
@pytest.mark.soak
def test_the_vos_of_a_public_log_keep_to_their_limits(workload_log: Callable[[str], Path], tmp_path: Path) -> None:
    """The LCG of 2005, its groups as VOs: each has so many slots at CERN and in the north at a time."""
    path = workload_log("LCG-2005-1.swf.gz")
    (tmp_path / path.name).symlink_to(path)
    text = LCG_UNDER_AGREEMENTS
    for vo in range(1, 29):
        for provider, most in VOS.items():
            text += f'[[agreement]]\nname = "vo-{vo}-{provider}"\nprovider = "{provider}"\n'
            text += f'consumer = "vo-{vo}"\nkind = "decay"\nshare = 1\nwindow_s = {LONG_S}\nfactors = [1]\n'
            text += f"lending_limit = {most}\n"
    file = tmp_path / "lcg.toml"
    file.write_text(text, encoding="utf-8")
    scenario = load_scenario(file)
    gateway, tables, end_ms = played(scenario, tmp_path / "run")
    busiest = {}
    for agreement in scenario.agreements:
        sharing = gateway.quotas.sharing
        assert sharing is not None
        held = segments_of(tables, agreement.consumer, sharing.providers.sites_of(agreement.provider))
        most = most_at_a_time(held)
        assert most <= (agreement.lending_limit or 0)
        if most:
            busiest[agreement.name] = most
    asked = [one for one in scenario.agreements if one.name in busiest]
    assert_the_books_are_right(gateway, tables, end_ms, asked)
    assert max(busiest.values()) == VOS["cern"]  # else the limits were never felt
    assert set(tables["leases"]["state"]) == {"completed"}
