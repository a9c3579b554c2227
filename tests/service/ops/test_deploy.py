"""What is in `deploy/`: it names commands, options and metrics that there are."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from leasehold.cli.main import app
from leasehold.jobs.job import JobReason
from leasehold.model.event import Operation
from leasehold.model.reason import Outcome, Reason
from leasehold.service.config_file import load_config
from leasehold.service.drivers.protocol import Verb
from leasehold.service.metrics import Difference, EstimateGauges, GaugeSnapshot, Metrics

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
RULES = DEPLOY / "prometheus" / "leasehold-alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "leasehold.json"
METRIC = re.compile(r"\b(?:leasehold|process)_[a-z_]+")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!=|!~|=)\s*\"")
OF_PROMETHEUS = {"job", "instance"}


def series() -> dict[str, set[str]]:
    """Every name that a gateway's metrics have, with its labels; each was used once."""
    metrics = Metrics()
    metrics.accepted()
    metrics.batch(1, 0.1, 0.1)
    metrics.decided_about_job(JobReason.NODE_DIED, "das3")
    metrics.decided(Outcome.PREEMPT, Reason.LOCAL_NEEDS_ROOM, "das3")
    metrics.held_to_agreement(Outcome.HOLD, Reason.SHARE_EXHAUSTED)
    metrics.order_failed("das3", Verb.START)
    metrics.difference("das3", Difference.LOST)
    metrics.invariants(ok=True)
    metrics.answered("/v1/leases", "GET", 200, 0.1)
    metrics.took("das3", Operation.SUSPEND, 2.5)
    estimates = EstimateGauges(age_s=3.0, factors={"start": 2.0})
    metrics.show(lambda: GaugeSnapshot(up={"das3": True}, factors={("das3", "suspend"): 0.1}, estimates=estimates))
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def expressions(node: Any) -> list[str]:
    """All queries in a document, wherever they stand."""
    if isinstance(node, dict):
        own = [node["expr"]] if isinstance(node.get("expr"), str) else []
        return own + [found for value in node.values() for found in expressions(value)]
    if isinstance(node, list):
        return [found for value in node for found in expressions(value)]
    return []


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def rules() -> Any:
    return yaml.safe_load(RULES.read_text(encoding="utf-8"))


QUERIES = [query for query in (*expressions(dashboard()), *expressions(rules())) if not query.startswith("up{")]
"""But for the one about `up`, which Prometheus makes itself."""


class TestMonitoring:
    @pytest.mark.parametrize("query", QUERIES)
    def test_every_query_asks_for_what_there_is(self, query: str) -> None:
        there = series()
        asked = METRIC.findall(query)
        assert asked
        assert set(asked) <= there.keys()
        labels = set().union(*(there[name] for name in asked)) | OF_PROMETHEUS
        assert set(LABEL.findall(query)) <= labels

    def test_the_dashboard_shows_every_metric_of_ours(self) -> None:
        families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in series()}
        shown = " ".join(expressions(dashboard()))
        ours = {name for name in families if name.startswith("leasehold_")}
        assert [name for name in sorted(ours) if name not in shown] == []

    def test_every_panel_says_what_it_shows_and_has_a_place_of_its_own(self) -> None:
        panels = dashboard()["panels"]
        assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []
        cells = [
            (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
            for panel in panels
            for x in range(panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24

    def test_every_alert_says_what_is_wrong_and_what_to_do(self) -> None:
        alerts = [rule for group in rules()["groups"] for rule in group["rules"]]
        assert all(alert["annotations"].keys() == {"summary", "action"} for alert in alerts)
        assert {alert["labels"]["severity"] for alert in alerts} == {"warning", "critical"}

    def test_prometheus_is_told_of_the_rules_that_there_are(self) -> None:
        scrape = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yml").read_text(encoding="utf-8"))
        assert scrape["rule_files"] == [RULES.name]
        assert scrape["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:8470"]


def exec_start(unit: Path) -> list[str]:
    """The words that a unit starts."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    return str(line).split()


def options_of(command: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    return {name for parameter in group.commands[command].params for name in parameter.opts}


class TestSystemd:
    @pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
    def test_it_starts_a_command_with_options_that_it_has(self, unit: Path) -> None:
        program, command, *words = exec_start(unit)
        assert program.endswith("/leasehold")
        assert {word for word in words if word.startswith("--")} <= options_of(command)

    @pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
    def test_systemd_finds_nothing_wrong(self, unit: Path, tmp_path: Path) -> None:
        if shutil.which("systemd-analyze") is None:
            pytest.skip("no systemd-analyze here")
        text = unit.read_text(encoding="utf-8").replace("/opt/leasehold/bin/leasehold", sys.executable)
        copy = tmp_path / unit.name
        copy.write_text(text, encoding="utf-8")
        said = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
        )
        assert unit.stem not in said.stderr
        assert said.returncode == 0

    @pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
    @pytest.mark.parametrize(
        "line",
        ["Type=notify", "DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "UMask=0077"],
    )
    def test_it_is_held_tight(self, unit: Path, line: str) -> None:
        assert f"\n{line}\n" in unit.read_text(encoding="utf-8")


class TestContainer:
    def test_its_configuration_is_accepted(self) -> None:
        config = load_config(DEPLOY / "container" / "leasehold.toml")
        assert config.service.behind_tls_proxy
        assert not config.service.needs_token(config.service.probes)

    def test_it_is_started_with_options_that_there_are(self) -> None:
        text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
        command, *words = json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[0])
        assert {word for word in words if word.startswith("--")} <= options_of(command)

    def test_it_is_nobody_and_says_how_it_is(self) -> None:
        text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
        assert "\nUSER 10001\n" in text
        assert "\nHEALTHCHECK " in text
        tags = [image.partition(":")[2] for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE)]
        assert all(tag and tag != "latest" for tag in tags)

    def test_what_it_copies_is_there(self) -> None:
        text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
        copied = [word for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
        assert [name for name in copied if not (DEPLOY.parent / name).exists()] == []
