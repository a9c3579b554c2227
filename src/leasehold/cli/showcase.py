"""The demonstration: the same clusters and requests under two routing policies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from leasehold.analysis.metrics import totals
from leasehold.analysis.report import can_draw, write_comparison
from leasehold.analysis.report.contents import headline
from leasehold.analysis.run import Run
from leasehold.cli.comparing import comparison, show
from leasehold.cli.folders import REPORT, made_room
from leasehold.cli.running import Manner, as_json, make_products, replay_command, simulate
from leasehold.cli.screen import answer
from leasehold.simulation.scenario.parse import load_scenario, packaged_path

SCENARIO = "demo"
POLICIES = ("rr", "pap-rtdp")
QUICK_HORIZON_S = 21_600

TABLE = [
    "vms_preempted",
    "leases_preempted",
    "migration_rate_pct",
    "awrt_s",
    "locals_delayed",
    "guest_vm_h",
    "overhead_vm_h",
    "utilisation_pct",
    "occupancy_pct",
]
"""What of the comparison goes to the terminal: the question of the paper first."""


class Showcase:
    """Two runs below one folder, each named after its policy."""

    def __init__(self, folder: Path, seed: int | None, *, quick: bool, manner: Manner) -> None:
        wished = {"seed": seed, "horizon_s": QUICK_HORIZON_S if quick else None}
        self._folder = folder
        self._overrides = {key: value for key, value in wished.items() if value is not None}
        self._manner = manner
        self._runs: dict[str, Run] = {}
        self._reports: dict[str, Path | None] = {}
        self._comparison_report: Path | None = None

    def perform(self) -> None:
        """Run both, with the report of each and one on both."""
        with made_room(self._folder):
            for policy in POLICIES:
                overrides = self._overrides | {"gateway.policy": policy}
                scenario = replace(load_scenario(packaged_path(SCENARIO), overrides), name=policy)
                run = simulate(scenario, self._folder / policy, self._manner, self._command(scenario.seed, policy))
                self._runs[policy] = run
                self._reports[policy] = make_products(run, self._manner)
            if can_draw():
                first, second = self._runs.values()
                self._comparison_report = write_comparison(first, second, self._folder / REPORT)

    def _command(self, seed: int, policy: str) -> str:
        horizon_s = self._overrides.get("horizon_s")
        return replay_command(SCENARIO, [("--routing", policy), ("--seed", seed), ("--horizon", horizon_s)])

    def _comparison(self) -> list[dict[str, Any]]:
        first, second = (self._runs[policy].path for policy in POLICIES)
        return comparison(first, second, TABLE)

    def tell(self) -> None:
        """Print the table, and where the rest is."""
        for policy, run in self._runs.items():
            answer(f"{policy}: {headline(run, totals(run))}")
        answer("")
        show(self._comparison(), *POLICIES)
        answer("")
        if self._comparison_report is not None:
            answer(f"Report: {self._comparison_report}")
        for policy, run in self._runs.items():
            also = f", with a report of its own: {self._reports[policy]}" if self._reports[policy] else ""
            answer(f"Run {policy}: {run.path}{also}")

    def as_json(self) -> dict[str, Any]:
        """Give the same for a program."""
        runs = {policy: as_json(run, self._reports[policy]) for policy, run in self._runs.items()}
        report = None if self._comparison_report is None else str(self._comparison_report)
        return {"folder": str(self._folder), "report": report, "runs": runs, "comparison": self._comparison()}
