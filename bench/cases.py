"""The cases of `make bench`, in the order in which they run.

Smaller sizes stand for the whole unless ``--full`` is given; figures are kept apart by size. What every case runs
is a whole process (interpreter start, imports, reading and writing count), or a module of the benchmark in one:
this process stays small, because a child's peak of memory counts what forked it.
"""

import math
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import linear_regression

from bench.children import HERE, answer_of, by_hand, leasehold, log_of, sim_run
from bench.harness import Case, Reading
from bench.make_log import make_gpu_log, make_log
from bench.race import COMPILED, PURE, Setting, Skipped
from bench.service import service, show_service

PROCS = 256
ROOT = HERE.parent
EARLIER = "6e5ebe3"
"""The commit of 2026-11-22 that later ones are compared with."""
YEAR_JOBS = 28_489
YEAR_PROCS = 100
YEAR_MEAN_S = 5_600
"""The log of the README, KTH SP2: local jobs and processors; with modelled guests it has 310,731 requests. So long
are its look-alike's jobs that it takes 340 days, too."""
ARCHER2, FRONTIER, LONGEST, IN2P3 = 600_000, 2_200_000, 10_000_000, 44_000_000
GROWN: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "queue": ((10, 100, 1_000, 3_000), (10, 100, 1_000, 10_000, 100_000)),
    "sites": ((3, 30, 100, 300), (3, 30, 100, 300, 1_000)),
    "guests": ((10, 100, 1_000, 10_000), (10, 100, 1_000, 10_000, 100_000)),
    "jobs": ((40, 100, 300), (40, 100, 300, 1_000)),
    "agreements": ((1, 10, 100, 1_000, 10_000), (1, 10, 100, 1_000, 10_000)),
}
"""The sizes of each kind of `bench.growth`: those of a default run, and of a full one."""
HELD = (1_000, 10_000, 100_000)
PAGES = {
    "overview": "/", "loans": "/loans", "queue": "/queue", "timeline": "/timeline", "leases": "/leases",
    "story": "/leases/77", "nodes": "/nodes?site=site-0", "history": "/history", "decisions": "/decisions",
}  # fmt: skip
"""Addresses of the pages that `bench.dashboard` asks for; it is wanted that each takes 0.2 s at most."""


def replay(log: Path, run: Path, *flags: str) -> list[str]:
    """`sim run` on a log, without a report and exports unless other flags are given."""
    return sim_run(str(log), run, "--procs", str(PROCS), *(flags or ("--no-report", "--no-export")))


def script(setting: Setting) -> Iterator[Reading]:
    """`sim run` with tables and answer beside the script; then with its report, and with its exports."""
    jobs = setting.jobs or (1_000_000 if setting.full else 100_000)
    size, run, table = f"{jobs:,} jobs", setting.folder / "run", setting.folder / "by_hand.csv"
    for estimates in ("exact", "loose"):
        log = log_of(setting.folder, jobs, estimates)
        runs = {"script": (by_hand(log, PROCS, table), setting.variants[PURE])}
        for name, environment in setting.variants.items():
            if estimates == "loose":
                runs[f"{name} reporting"] = replay(log, run, "--no-export"), environment
                runs[f"{name} exporting"] = replay(log, run, "--no-report"), environment
            runs[name] = replay(log, run), environment
        costs = setting.beside_yardstick(runs)
        for name in setting.variants:
            yield Reading(f"script.{estimates}", name, size, costs["script"].cpu_s / costs[name].cpu_s)
            if estimates == "loose":
                yield Reading("script.memory", name, size, costs[name].peak_mb)
                added_s = costs[f"{name} reporting"].cpu_s - costs[name].cpu_s
                yield Reading("script.report", name, size, added_s)
                yield Reading("script.exports", name, size, costs[f"{name} exporting"].peak_mb)
        if estimates == "exact":
            found = answer_of("bench.agreement", str(table), str(run))
            yield Reading("script.same-starts", PURE, size, found["same_start"] / found["jobs"])


def earlier(setting: Setting) -> Iterator[Reading]:
    """The demo by the code of the earlier commit, and by this."""
    source = setting.folder / "earlier"
    _check_out(EARLIER, source)
    flags = ("--no-report", "--no-export", "--no-baseline")
    old = setting.variants[PURE] | {"PYTHONPATH": str(source / "src")}
    for routing, then in (("rr", "rr"), ("pap-rtdp", "pap-rtdp"), ("selective", "choosy")):
        out = setting.folder / "run"
        runs = {"then": (sim_run("demo", out, "--routing", then, *flags), old)}
        for name, environment in setting.variants.items():
            runs[name] = (sim_run("demo", out, "--routing", routing, *flags), environment)
        costs = setting.in_turn(runs)
        for name in setting.variants:
            yield Reading(f"earlier.{routing}", name, "48 hours", costs["then"].cpu_s / costs[name].cpu_s)


def _check_out(commit: str, folder: Path) -> None:
    """Put the source of a commit there; raises Skipped where the clone has no such commit."""
    archive = folder.with_suffix(".tar")
    git = ["git", "-C", str(ROOT), "archive", "--format=tar", f"--output={archive}", commit, "src"]
    try:
        subprocess.run(git, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skipped(f"commit {commit} is not in the history of this checkout (a shallow clone?)") from error
    folder.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def readme(setting: Setting) -> Iterator[Reading]:
    """The README's example as a user types it, with report and exports: a look-alike of its log, or the log itself."""
    if setting.logs is None:
        log, size = setting.folder / "year.swf", "a look-alike"
        make_log(log, YEAR_JOBS, YEAR_PROCS, 0.69, "loose", mean_s=YEAR_MEAN_S)
    else:
        found = sorted(setting.logs.glob("KTH-SP2*.swf*"))
        if not found:
            raise Skipped(f"no KTH-SP2*.swf in {setting.logs}")
        log, size = found[0], "KTH SP2"
    whole = sim_run(str(log), setting.folder / "run", "--procs", str(YEAR_PROCS), "--guests", "das2")
    runs = {name: (whole, environment) for name, environment in setting.variants.items()}
    for name, cost in (setting if setting.full else setting.once()).beside_yardstick(runs).items():
        yield Reading("readme.time", name, size, cost.cpu_s)
        yield Reading("readme.memory", name, size, cost.peak_mb)


def by_nodes(setting: Setting) -> Iterator[Reading]:
    """A log of GPU jobs planned by nodes, beside the same jobs planned by processors."""
    jobs, nodes = (8_000, 1_500) if setting.full else (2_000, 160)
    folder = setting.folder / "gpus"
    folder.mkdir()
    make_gpu_log(folder, jobs, nodes, 1.5)
    ways = {"slots": (), "nodes": ("--nodes", str(folder / "nodes.txt"))}
    runs = {
        f"{name} {way}": (_replay_gpus(folder, *flags), environment)
        for name, environment in setting.variants.items()
        for way, flags in ways.items()
    }
    costs = setting.once().in_turn(runs)
    for name in setting.variants:
        ratio = costs[f"{name} slots"].cpu_s / costs[f"{name} nodes"].cpu_s
        yield Reading("nodes.time", name, f"{jobs:,} jobs, {nodes:,} nodes", ratio)


def _replay_gpus(folder: Path, *flags: str) -> list[str]:
    files = (str(folder / "log.csv"), "--mapping", str(folder / "mapping.toml"), "--guests", "none")
    rules = ("--policy", "conservative", "--no-report", "--quiet", "--force", "--out", str(folder / "run"))
    return leasehold("sim", "from-log", *files, *rules, *flags)


def large(setting: Setting) -> Iterator[Reading]:
    """Logs of other systems' size, each once; what the largest would take is fitted to the others."""
    variant = COMPILED if COMPILED in setting.variants else PURE
    taken_s = dict[int, float]()
    for jobs, name in ((ARCHER2, "archer2"), (FRONTIER, "frontier"), (LONGEST, "longest")):
        log = log_of(setting.folder, jobs, "loose")
        run = {name: (replay(log, setting.folder / "run"), setting.variants[variant])}
        cost = setting.once().beside_yardstick(run)[name]
        taken_s[jobs] = cost.cpu_s
        log.unlink()
        yield Reading(f"large.{name}", variant, f"{jobs:,} jobs", cost.cpu_s)
        yield Reading("large.memory", variant, f"{jobs:,} jobs", cost.peak_mb)
    slope = exponent(taken_s)
    yield Reading("large.exponent", variant, f"{ARCHER2:,} to {LONGEST:,} jobs", slope)
    whole_s = taken_s[LONGEST] * (IN2P3 / LONGEST) ** slope
    yield Reading("large.in2p3", variant, f"{IN2P3:,} jobs, extrapolated", whole_s)


def exponent(costs: Mapping[int, float]) -> float:
    """Fit a power of the size to costs: the exponent."""
    sizes = [math.log(size) for size in costs]
    return linear_regression(sizes, [math.log(cost) for cost in costs.values()]).slope


def growth(setting: Setting) -> Iterator[Reading]:
    """The cost of one more request, fitted over the three largest sizes."""
    for kind, (default, full) in GROWN.items():
        sizes = full if setting.full else default
        setting.say(f"growth: {kind}, {sizes[0]:,} to {sizes[-1]:,}")
        for name, environment in setting.variants.items():
            rounds = [
                answer_of("bench.growth", kind, *map(str, sizes), environment=environment)
                for _ in range(setting.rounds)
            ]
            for what in rounds[0]:
                each = {size: least for size in sizes if (least := _least(rounds, what, str(size))) is not None}
                shown = ", ".join(f"{size:,}: {cost_us:,.0f}" for size, cost_us in each.items())
                setting.say(f"  {what}, {name}, us each at {shown}")
                top = dict(sorted(each.items())[-3:])
                if len(top) > 1:
                    yield Reading(f"growth.{what}", name, f"{min(top):,} to {max(top):,}", exponent(top))


def _least(rounds: Sequence[Mapping[str, Mapping[str, float]]], what: str, size: str) -> float | None:
    """Return the least of some rounds, None where a round did not come so far."""
    costs = [one[what].get(size) for one in rounds if what in one]
    return min(cost for cost in costs if cost is not None) if costs and None not in costs else None


def start(setting: Setting) -> Iterator[Reading]:
    """How long small commands take, beside what importing the table library alone takes."""
    small = sim_run("demo", setting.folder / "run", "--horizon", "3600")
    commands = {"help": leasehold("--help"), "small-run": small}
    bare = ([sys.executable, "-c", "import polars"], setting.variants[PURE])
    for name, environment in setting.variants.items():
        runs = {what: (one, environment) for what, one in commands.items()}
        costs = setting.at_least(3).in_turn({"bare": bare} | runs)
        for what in commands:
            yield Reading(f"start.{what}", name, "one start", costs[what].cpu_s / costs["bare"].cpu_s)


def live(setting: Setting) -> Iterator[Reading]:
    """The live gateway beside its disk, uncompiled as it runs."""
    sizes, requests = (HELD, 20_000) if setting.full else (HELD[:2], 2_000)
    found = service(sizes, requests, setting.say)
    show_service(found)
    pace = setting.pace()
    yield Reading("live.http", PURE, f"{requests:,} requests", found.over_http["accepted_per_s"] / found.commits_per_s)
    for one in found.held:
        yield Reading("live.filling", PURE, f"{one.leases:,} leases", one.accepted_per_s / found.commits_per_s)
        size = f"{one.leases:,} leases"
        yield Reading("live.displacing", PURE, size, one.local["p99_ms"] / 1000)
        yield Reading("live.recall", PURE, f"{one.recall['vms']:,} VMs", one.recall["decided_s"])
        yield Reading("live.restart", PURE, size, one.restart_cpu_s * pace)
        yield Reading("live.intake", PURE, size, one.intake["most_ms"] / 1000)
    yield Reading("live.request", PURE, f"{requests:,} requests", found.over_http["gateway_cpu_ms"] * 1000 * pace)


def dashboard(setting: Setting) -> Iterator[Reading]:
    """Pages of the dashboard, plans and explanations, of a gateway with so many leases: what they cost it."""
    leases, pace = HELD[-1] if setting.full else HELD[-2], setting.pace()
    folder = setting.folder / "dashboard"
    folder.mkdir()
    found = answer_of("bench.dashboard", str(folder), str(leases))
    for name, path in PAGES.items():
        yield Reading(f"dashboard.{name}", PURE, f"{leases:,} leases", found[path] / 1000 * pace)
    for name in ("plan", "explain"):
        yield Reading(f"dashboard.{name}", PURE, f"{leases:,} leases", found[name] / 1000 * pace)


def decisions(setting: Setting) -> Iterator[Reading]:
    """Single decisions in process: of the demo's gateway, of victims, and of the matching of jobs and nodes."""
    pace = setting.pace()
    horizon_s, draws = (172_800, 200) if setting.full else (21_600, 50)
    for one in answer_of("bench.decisions", "--horizon-s", str(horizon_s), "--draws", str(draws)):
        yield Reading("decisions.single", PURE, one["what"], one["median_us"] * pace)
    jobs, nodes = (1_000, 10_000) if setting.full else (100, 1_000)
    flags = ("--jobs", str(jobs), "--nodes", str(nodes), "--single", "100")
    found = answer_of("bench.matching", *flags)
    yield Reading("decisions.greedy", PURE, f"{jobs:,} jobs, {nodes:,} nodes", found["greedy_s"] * pace)
    yield Reading("decisions.least-weight", PURE, f"{jobs:,} jobs, {nodes:,} nodes", found["optimal_s"] * pace)


def whole(setting: Setting) -> Iterator[Reading]:
    """The published evaluation of routing, by a few of its runs: processor-days of all of it."""
    found = answer_of("bench.evaluation", "--runs", "19", "--hours", "12")
    yield Reading("evaluation.days", PURE, "19 runs of 12 hours", found["whole_days"] * setting.pace())


CASES: Sequence[Case] = (
    Case("script", "against a hundred lines written by hand", script),
    Case("earlier", f"against the code of 2026-11-22 ({EARLIER}), on the demo", earlier),
    Case("readme", "the README's example: a year of a cluster with modelled guests", readme),
    Case("nodes", "GPU jobs planned by nodes", by_nodes),
    Case("large", "logs as long as those of large machines", large, only_full=True),
    Case("growth", "what one more request costs where there are many", growth),
    Case("start", "small commands", start),
    Case("live", "the live gateway", live),
    Case("dashboard", "pages of the dashboard, plans and explanations", dashboard),
    Case("decisions", "single decisions", decisions),
    Case("evaluation", "the published evaluation of routing", whole, only_full=True),
)
