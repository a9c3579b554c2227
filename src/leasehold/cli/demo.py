"""``leasehold demo``: the same clusters and requests under two routing policies, compared."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from leasehold.cli.options import Force, Json, Out, Quiet, Seed, keep_tables_lean, switch
from leasehold.cli.screen import answer, answer_json

if TYPE_CHECKING:
    from leasehold.analysis.run import Run
    from leasehold.cli.running import Manner

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
"""The metrics of the comparison in the terminal: the question of the paper first."""


def demo(
    out: Out = None,
    seed: Seed = None,
    quick: Annotated[bool, switch("--quick", does="Simulate six hours instead of two days.")] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate three clusters that lend for two days, under two policies, and compare."""
    keep_tables_lean()
    from leasehold.analysis.report import can_draw, write_comparison
    from leasehold.cli.running import Manner, as_json, choose_folder, comparison, made_room
    from leasehold.study import REPORT

    folder = choose_folder("demo", out, force=force)
    given = {"seed": seed, "horizon_s": QUICK_HORIZON_S if quick else None}
    overrides = {key: value for key, value in given.items() if value is not None}
    manner = Manner(quiet=quiet or json)
    with made_room(folder):
        results = {policy: _run(policy, folder, overrides, manner) for policy in POLICIES}
        first, second = (run for run, _ in results.values())
        report = write_comparison(first, second, folder / REPORT) if can_draw() else None
    rows = comparison(first.path, second.path, TABLE)
    if json:
        data = {policy: as_json(run, own_report) for policy, (run, own_report) in results.items()}
        written = None if report is None else str(report)
        answer_json({"folder": str(folder), "report": written, "runs": data, "comparison": rows})
    else:
        _show(results, rows, report)


def _run(policy: str, folder: Path, overrides: dict[str, Any], manner: "Manner") -> "tuple[Run, Path | None]":
    """Run the scenario under a policy, into a folder named after it; give the run and its report."""
    from leasehold.cli.running import make_products, replay_command, simulate
    from leasehold.simulation.scenario.parse import load_scenario, packaged_path

    scenario = load_scenario(packaged_path(SCENARIO), overrides | {"gateway.policy": policy})
    options = [("--routing", policy), ("--seed", scenario.seed), ("--horizon", overrides.get("horizon_s"))]
    run = simulate(replace(scenario, name=policy), folder / policy, manner, replay_command(["run", SCENARIO], options))
    return run, make_products(run, manner)


def _show(results: "dict[str, tuple[Run, Path | None]]", rows: list[dict[str, Any]], report: Path | None) -> None:
    """Print the table, and where the rest is."""
    from leasehold.analysis.metrics import totals
    from leasehold.analysis.report.contents import headline
    from leasehold.cli.running import show_comparison

    for policy, (run, _) in results.items():
        answer(f"{policy}: {headline(run, totals(run))}")
    answer("")
    show_comparison(rows, *POLICIES)
    answer("")
    if report is not None:
        answer(f"Report: {report}")
    for policy, (run, own_report) in results.items():
        also = f", with a report of its own: {own_report}" if own_report else ""
        answer(f"Run {policy}: {run.path}{also}")
