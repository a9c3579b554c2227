"""``leasehold sim``: run a simulation, and look at runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from leasehold.cli import options
from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.options import Force, Json, Out, Quiet, ReportFile, RunFolder, Seed, switch
from leasehold.cli.screen import answer, answer_json, talk

app = typer.Typer(help="Run simulations and inspect runs.", no_args_is_help=True)

LOG = "Of a log"
RULES = "Rules"


@dataclass(frozen=True, slots=True)
class _Overrides:
    """The options of `run` that override keys of a scenario, None where not given."""

    local_policy: str | None = None
    routing: str | None = None
    victims: str | None = None
    load: float | None = None
    seed: int | None = None
    horizon_s: float | None = None
    assignments: list[str] = field(default_factory=list)

    def keys(self) -> dict[str, Any]:
        """Give the keys of the scenario and their values; names are checked here, so that an error names the option."""
        from leasehold.configuration.policies import absolute, find_routing_policy, find_victim_policy
        from leasehold.leasing.backfill import reservation_depth
        from leasehold.simulation.scenario.parse import parse_assignments

        found: dict[str, Any] = {}
        if self.local_policy is not None:
            reservation_depth(self.local_policy)
            found |= _for_all_clusters("local_policy", self.local_policy)
        if self.victims is not None:
            victims = absolute(self.victims, Path())
            find_victim_policy(victims)
            found |= _for_all_clusters("victims", victims)
        if self.routing is not None:
            found["gateway.policy"] = absolute(self.routing, Path())
            find_routing_policy(found["gateway.policy"])
        others = {"stream.*.load": self.load, "seed": self.seed, "horizon_s": self.horizon_s}
        found |= {key: value for key, value in others.items() if value is not None}
        return found | parse_assignments(self.assignments)


def _for_all_clusters(key: str, value: str) -> dict[str, str]:
    return {f"defaults.{key}": value, f"cluster.*.{key}": value}


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one argument for each option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO_OR_LOG",
            help="A scenario (a .toml file, or the name of one that comes with Leasehold), a workload log "
            "(.swf or .gwf, perhaps .gz), or an earlier run folder.",
            autocompletion=options.complete_scenario,
            show_default=False,
        ),
    ],
    procs: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="Processors of its cluster, max-procs (from the log's header) or peak (the most its jobs use).",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = "",
    site: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of its cluster.", rich_help_panel=LOG, show_default=False),
    ] = "",
    cluster_by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="One cluster for each partition, queue, group, user or site.",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = None,
    guests: Annotated[
        str | None,
        typer.Option(
            metavar="LOG|das2",
            help="Source of guests: a log, or das2 for the model.",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Backfilling for local jobs: fcfs, easy, hybrid:N, conservative.",
            rich_help_panel=RULES,
            autocompletion=options.complete_discipline,
            show_default=False,
        ),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Routing policy for guests.",
            rich_help_panel=RULES,
            autocompletion=options.complete_routing,
            show_default=False,
        ),
    ] = None,
    victims: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Victim policy.",
            rich_help_panel=RULES,
            autocompletion=options.complete_victims,
            show_default=False,
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            help="Multiply the arrival rate by this factor.",
            rich_help_panel=RULES,
            show_default=False,
        ),
    ] = None,
    seed: Seed = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time after which no jobs arrive.", rich_help_panel=RULES, show_default=False
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set any key of the scenario, such as cluster.C64.slots=32; may be repeated.",
            rich_help_panel=RULES,
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    force: Force = False,
    json: Json = False,
    no_report: Annotated[bool, switch("--no-report", does="Do not write a report.")] = False,
    no_export: Annotated[bool, switch("--no-export", does="Do not write run.swf and jobs.csv.")] = False,
    no_baseline: Annotated[
        bool, switch("--no-baseline", does="Skip the second run without guests; delays of local jobs are then unknown.")
    ] = False,
    check: Annotated[bool, switch("--check", does="Check all invariants after every event (slow).")] = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario, or a log as one cluster, and write a run folder."""
    options.keep_tables_lean()
    from leasehold.cli.running import Manner, as_json, choose_folder, make_products, replay_command, show_run, simulate
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.study import scenario_of

    overrides = _Overrides(policy, routing, victims, load, seed, horizon, assignments or [])
    scenario = scenario_of(source, LogOptions(procs, site, cluster_by, guests), overrides.keys())
    manner = Manner(check, not no_baseline, quiet or json, not no_report, not no_export)
    command = replay_command(
        source,
        [
            ("--procs", procs),
            ("--site", site),
            ("--cluster-by", cluster_by),
            ("--guests", guests),
            ("--policy", policy),
            ("--routing", routing),
            ("--victims", victims),
            ("--load", load),
            ("--seed", scenario.seed),
            ("--horizon", horizon),
            ("--set", assignments),
            ("--no-baseline", no_baseline),
            ("--check", check),
        ],
    )
    done = simulate(scenario, choose_folder(scenario.name, out, force=force), manner, command)
    report = make_products(done, manner)
    if json:
        answer_json(as_json(done, report))
    elif quiet:
        answer(str(done.path))
    else:
        show_run(done, report)


@app.command()
def calibrate(  # noqa: PLR0913, PLR0917 - one argument for each option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO_OR_LOG",
            help="A scenario, a workload log or an earlier run folder, as of `sim run`.",
            autocompletion=options.complete_scenario,
            show_default=False,
        ),
    ],
    procs: Annotated[
        str,
        typer.Option(metavar="N", help="Processors of the cluster of a log.", rich_help_panel=LOG, show_default=False),
    ] = "",
    guests: Annotated[
        str | None,
        typer.Option(metavar="LOG|das2", help="Source of guests.", rich_help_panel=LOG, show_default=False),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Backfilling for local jobs.",
            rich_help_panel=RULES,
            autocompletion=options.complete_discipline,
            show_default=False,
        ),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time after which no jobs arrive.", rich_help_panel=RULES, show_default=False
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="About how many requests of each kind are predicted.")
    ] = 300,
    replications: Annotated[
        int, typer.Option(metavar="N", min=2, max=1_000, help="Simulated futures for each prediction.")
    ] = 20,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Predict in a simulation when requests start, from what was known then, and score that."""
    options.keep_tables_lean()
    from leasehold.cli.estimate import show_scores
    from leasehold.protocol.forecasts import show_score
    from leasehold.simulation.calibrate import Sampling, calibrate
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.study import scenario_of

    overrides = _Overrides(policy, seed=seed, horizon_s=horizon)
    scenario = scenario_of(source, LogOptions(procs, guests=guests), overrides.keys())
    found = calibrate(scenario, Sampling(sample, replications, seed or 0))
    scores = list(map(show_score, found.scores))
    if json:
        raw = list(map(show_score, found.raw_scores))
        answer_json({"scores": scores, "uncorrected": raw, "at_once": found.trivial, "unknown": found.unknown})
        return
    show_scores(scores)
    answer(f"\n{found.trivial} more started at once; of {found.unknown} nothing could be said.")


@app.command()
def compare(
    first: RunFolder,
    second: RunFolder,
    json: Json = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only this metric; may be repeated.", show_default=False),
    ] = None,
    report: ReportFile = None,
    worse_than: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Exit with 1 if a metric of the second run is worse by more than this.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compare two runs."""
    from leasehold.analysis.report import write_comparison
    from leasehold.analysis.run import load
    from leasehold.cli.running import comparison, different_requests, show_comparison, worsened

    rows = comparison(first, second, metric or [])
    bad = [] if worse_than is None else worsened(rows, worse_than)
    written = None if report is None else write_comparison(load(first), load(second), report)
    warning = different_requests(first, second, rows)
    if warning:
        talk(warning)
    if json:
        warnings = [warning] if warning else []
        answer_json({"first": str(first), "second": str(second), "metrics": rows, "worse": bad, "warnings": warnings})
    else:
        show_comparison(rows, first.name, second.name)
        answer(f"\nReport: {written}" if written is not None else "")
    if bad:
        talk(f"worse by more than {worse_than:g} %: {', '.join(bad)}")
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def validate(run: RunFolder, json: Json = False) -> None:
    """Validate a run folder independently of the scheduler; exits with 1 if it is inconsistent."""
    options.keep_tables_lean()
    from dataclasses import asdict

    from leasehold.analysis.run import load
    from leasehold.analysis.validation import RULES
    from leasehold.analysis.validation import validate as violations_of

    opened = load(run)
    violations = violations_of(opened)
    if json:
        found = [asdict(violation) for violation in violations]
        answer_json({"run": str(run), "rules": len(RULES), "violations": found})
    else:
        for violation in violations:
            answer(f"{violation.rule}: {violation.sentence}")
        many = f"{len(violations):,} violations" if violations else "no violation"
        answer(f"{many} of {len(RULES)} rules in {opened.height('leases'):,} leases")
    if violations:
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def report(
    run: RunFolder,
    out: Out = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write its charts to this folder, as SVG and PNG.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write the report of a run as one HTML file that needs no network."""
    options.keep_tables_lean()
    from leasehold.analysis.report import write_pictures, write_report
    from leasehold.analysis.run import load
    from leasehold.study import REPORT

    opened = load(run)
    path = write_report(opened, out or run / REPORT)
    drawn = [] if pictures is None else write_pictures(opened, pictures)
    if json:
        answer_json({"report": str(path), "pictures": [str(file) for file in drawn]})
    else:
        answer("\n".join(map(str, [path, *drawn])))


@app.command()
def export(
    run: RunFolder,
    out: Out = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="swf|batsim", help="Only this one; may be repeated.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Export a run as an SWF log and as Batsim's jobs.csv."""
    options.keep_tables_lean()
    from leasehold.analysis.run import load
    from leasehold.cli.running import FORMATS, write_formats

    files = write_formats(load(run), out or run, formats or FORMATS)
    if json:
        answer_json({"files": [str(file) for file in files]})
    else:
        answer("\n".join(map(str, files)))
