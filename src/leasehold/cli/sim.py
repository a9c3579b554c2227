"""``leasehold sim``: run a simulation, and look at runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli import options
from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.options import Force, Json, Out, Quiet, ReportFile, RunFolder, Seed, switch
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.analysis.run import Run
    from leasehold.cli.running import Manner

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


LocalPolicy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Backfilling for local jobs: fcfs, easy, hybrid:N, conservative.",
        rich_help_panel=RULES,
        autocompletion=options.complete_discipline,
        show_default=False,
    ),
]
Victims = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Victim policy.",
        rich_help_panel=RULES,
        autocompletion=options.complete_victims,
        show_default=False,
    ),
]
NoReport = Annotated[bool, switch("--no-report", does="Do not write a report.")]


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
    policy: LocalPolicy = None,
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
    victims: Victims = None,
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
    no_report: NoReport = False,
    no_export: Annotated[bool, switch("--no-export", does="Do not write run.swf and jobs.csv.")] = False,
    no_baseline: Annotated[
        bool, switch("--no-baseline", does="Skip the second run without guests; delays of local jobs are then unknown.")
    ] = False,
    check: Annotated[bool, switch("--check", does="Check all invariants after every event (slow).")] = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario, or a log as one cluster, and write a run folder."""
    options.keep_tables_lean()
    from leasehold.cli.running import Manner, choose_folder, replay_command, simulate
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.study import scenario_of

    overrides = _Overrides(policy, routing, victims, load, seed, horizon, assignments or [])
    scenario = scenario_of(source, LogOptions(procs, site, cluster_by, guests), overrides.keys())
    manner = Manner(check, not no_baseline, quiet or json, not no_report, not no_export)
    command = replay_command(
        ["run", source],
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
    _tell(done, manner, json=json, quiet=quiet)


def _tell(done: "Run", manner: "Manner", *, json: bool, quiet: bool) -> None:
    """Write what comes beside the tables of a run, and say what happened."""
    from leasehold.cli.running import as_json, make_products, show_run

    report = make_products(done, manner)
    if json:
        answer_json(as_json(done, report))
    elif quiet:
        answer(str(done.path))
    else:
        show_run(done, report)


@dataclass(frozen=True, slots=True)
class ArrivalOptions:
    """The options of a run of a log that is first read into a table."""

    procs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Processors of the cluster; default: the most that were in use at once.",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = None
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Nodes as printed by sinfo --Node --format='%N|%c|%m|%G': plan by cores, memory and GPUs.",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = None
    timezone: Annotated[
        str,
        typer.Option(metavar="ZONE", help="Time zone of times as text, such as Europe/Amsterdam.", rich_help_panel=LOG),
    ] = "UTC"
    site: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the cluster.", rich_help_panel=LOG, show_default=False),
    ] = "cluster"
    guests: Annotated[
        str,
        typer.Option(
            metavar="LOG|das2|none",
            help="Source of guests: a log, das2 (the model) or none; default: das2, unless the mapping names guests.",
            rich_help_panel=LOG,
            show_default=False,
        ),
    ] = ""
    guest_share: Annotated[
        float,
        typer.Option(metavar="F", help="Demand of the model's guests, as a share of all slots.", rich_help_panel=LOG),
    ] = 0.2
    policy: LocalPolicy = None
    victims: Victims = None
    seed: Seed = None
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set any key of the scenario, such as stream.local.load=1.2; may be repeated.",
            rich_help_panel=RULES,
            show_default=False,
        ),
    ] = None
    out: Out = None
    force: Force = False
    json: Json = False
    no_report: NoReport = False
    quiet: Quiet = False

    def words(self, seed: int) -> list[tuple[str, object]]:
        """Give the options that repeat the run, with the seed that it had."""
        return [
            ("--procs", self.procs),
            ("--nodes", self.nodes),
            ("--timezone", None if self.timezone == "UTC" else self.timezone),
            ("--site", None if self.site == "cluster" else self.site),
            ("--guests", self.guests),
            ("--guest-share", None if self.guest_share == _GUEST_SHARE else self.guest_share),
            ("--policy", self.policy),
            ("--victims", self.victims),
            ("--seed", seed),
            ("--set", self.assignments),
        ]


_GUEST_SHARE = ArrivalOptions().guest_share


@app.command("from-slurm")
@options.taking(ArrivalOptions)
def from_slurm(
    given: ArrivalOptions,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Accounting: what sacct --parsable2 (with its header) or sacct --json printed; several may overlap.",
            show_default=False,
        ),
    ],
) -> None:
    """Say what your Slurm cluster would lend and whether anybody would notice, from its accounting.

    The accounting is read into a table in the run folder and simulated as one cluster, with guests of a model.
    `leasehold sim dump-script` prints a script that dumps accounting under pseudonyms.
    """
    from leasehold.simulation.scenario.from_log import read_accounting, zone_of

    zone = zone_of(given.timezone)
    _simulate_table(
        given, files, lambda folder: read_accounting(files, folder, zone, given.procs), ["from-slurm", *map(str, files)]
    )


@app.command("from-log")
@options.taking(ArrivalOptions)
def from_log(
    given: ArrivalOptions,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The log: CSV (perhaps .gz), Parquet or JSON.",
            show_default=False,
        ),
    ],
    mapping: Annotated[
        str,
        typer.Option(
            "--mapping",
            "-m",
            metavar="NAME|FILE",
            help="What its columns mean: a mapping that `leasehold sim mapping` lists, or a mapping file.",
            autocompletion=options.complete_mapping,
            rich_help_panel=LOG,
            show_default=False,
        ),
    ],
) -> None:
    """Simulate a log in columns of its own as the jobs of one cluster, as `from-slurm` does."""
    from leasehold.simulation.scenario.from_log import read_mapped, zone_of
    from leasehold.simulation.workload.mapping import load_mapping

    zone, found = zone_of(given.timezone), load_mapping(mapping)
    _simulate_table(
        given,
        files,
        lambda folder: read_mapped(files, found, folder, zone, given.procs),
        ["from-log", *map(str, files), "--mapping", mapping],
        found.external,
    )


def _simulate_table(
    given: ArrivalOptions,
    files: list[Path],
    read: Callable[[Path], tuple[Path, Any]],
    words: list[str],
    external: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Read a log into the folder of its run, simulate it, and say what happened."""
    options.keep_tables_lean()
    from leasehold.cli.running import Manner, choose_folder, made_room, replay_command, simulate
    from leasehold.simulation.scenario.from_log import MODEL, LogOptions, scenario_for_log
    from leasehold.simulation.workload.slurm import node_kinds

    overrides = _Overrides(given.policy, None, given.victims, None, given.seed, None, given.assignments or [])
    guests = given.guests or (None if external else MODEL)
    name = files[0].name.partition(".")[0] or files[0].name
    log_options = LogOptions(
        procs=str(given.procs or ""),
        site=given.site,
        guests=None if guests == "none" else guests,
        guest_share=given.guest_share,
        external=external or {},
        nodes=() if given.nodes is None else node_kinds(given.nodes),
        name=name,
    )
    keys = overrides.keys()
    folder = choose_folder(name, given.out, force=given.force)
    manner = Manner(quiet=given.quiet or given.json, report=not given.no_report, export=False)
    with made_room(folder), _removed_if_empty(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not manner.quiet:
            talk(f"reading {', '.join(map(str, files))}")
        log, _ = read(folder)
        scenario = scenario_for_log(log, log_options, keys)
        done = simulate(scenario, folder, manner, replay_command(words, given.words(scenario.seed)))
    _tell(done, manner, json=given.json, quiet=given.quiet)


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    """Leave nothing half-written: without a manifest at the end, the folder goes."""
    from shutil import rmtree

    from leasehold.model.tables import MANIFEST

    try:
        yield
    finally:
        if not (folder / MANIFEST).is_file():
            rmtree(folder, ignore_errors=True)


@app.command()
def mapping(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A mapping, to be printed.",
            autocompletion=options.complete_mapping,
            show_default=False,
        ),
    ] = "",
    json: Json = False,
) -> None:
    """List the mappings of public logs that come with Leasehold, or print one, to be changed for your own log."""
    from leasehold.cli.screen import answer_table
    from leasehold.model.errors import UnknownName
    from leasehold.simulation.workload.mapping import load_mapping, packaged_mappings

    found = packaged_mappings()
    if name:
        if name not in found:
            raise UnknownName("NAME", name, found)
        text = found[name].read_text(encoding="utf-8")
        answer_json({"name": name, "mapping": text}) if json else answer(text.rstrip("\n"))
        return
    rows = [(one, load_mapping(one)) for one in found]
    if json:
        answer_json({"mappings": [{"name": one, "format": of.format, "title": of.title} for one, of in rows]})
    else:
        answer_table(["NAME", "FORMAT", "LOG"], [[one, of.format, of.title] for one, of in rows])


@app.command("dump-script")
def dump_script(json: Json = False) -> None:
    """Print a script that dumps Slurm accounting under pseudonyms; it runs where Leasehold is not installed."""
    from importlib.resources import files

    script = files("leasehold.simulation.workload") / "slurm_dump.py"
    text = script.read_text(encoding="utf-8")
    if json:
        answer_json({"script": text})
    else:
        answer(text.rstrip("\n"))


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
    """Predict in a simulation when requests start, from what was known then, and score that.

    Beside it is how the quantiles of earlier waits of the same kind do, which look at nothing else: the climate.
    """
    options.keep_tables_lean()
    from dataclasses import asdict

    from leasehold.cli.estimate import show_climate, show_scores
    from leasehold.protocol.forecasts import show_score
    from leasehold.simulation.calibrate import Sampling, against_climate, calibrate
    from leasehold.simulation.scenario.from_log import LogOptions
    from leasehold.study import scenario_of

    overrides = _Overrides(policy, seed=seed, horizon_s=horizon)
    scenario = scenario_of(source, LogOptions(procs, guests=guests), overrides.keys())
    found = calibrate(scenario, Sampling(sample, replications, seed or 0))
    scores, climate = list(map(show_score, found.scores)), against_climate(found.predictions)
    if json:
        raw, beside = list(map(show_score, found.raw_scores)), list(map(asdict, climate))
        counts = {"at_once": found.trivial, "unknown": found.unknown}
        answer_json({"scores": scores, "uncorrected": raw, "climate": beside, **counts})
        return
    show_scores(scores)
    show_climate(climate)
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
