"""Leasehold as a library: ten functions to study lending from a program or a notebook.

::

    import leasehold

    run = leasehold.simulate("my-cluster.swf.gz", procs=256, guests="das2")
    run.gantt()
    run.compare(leasehold.simulate("my-cluster.swf.gz", procs=256, guests="das2", set={"gateway.policy": "rr"}))

`scenario` reads what is to be simulated, `simulate` runs it, `load` opens an earlier run; `metrics`, `compare`,
`validate` and `gantt` say what happened; `replicate` repeats scenarios with many seeds, and `differences` tests what
differs; `connect` speaks to a live gateway. All tables are polars frames.

`import leasehold` offers them by name and imports this module when the first one is used. Wrong input raises
`leasehold.model.errors.LeaseholdError`, in one line with field, value and what was expected.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from leasehold.analysis import metrics as measured
from leasehold.analysis.report import gantt_chart, write_report
from leasehold.analysis.run import Run, load
from leasehold.model.errors import InputError, InvalidField, LeaseholdError, UnknownName
from leasehold.model.tables import MANIFEST
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
from leasehold.simulation.scenario.parse import (
    format_of,
    load_scenario,
    overridden,
    packaged_names,
    packaged_path,
    scenario_from_dict,
)
from leasehold.simulation.scenario.spec import Scenario

if TYPE_CHECKING:
    from altair import LayerChart

    from leasehold.analysis.validation import Violation
    from leasehold.client import Client

RUNS = Path("runs")
"""Where runs go for which no folder is named."""
REPORT = "report.html"

Source = str | Path | Scenario
Settings = Mapping[str, Any]
"""Keys of a scenario and their values, such as ``{"gateway.policy": "rr", "cluster.C64.slots": 32}``."""


def scenario(
    source: Source,
    set: Settings | None = None,  # noqa: A002 - as the option --set, for those who know it
    *,
    procs: int | str = "",
    guests: str | Path | None = None,
    cluster_by: str | None = None,
    site: str = "",
) -> Scenario:
    """Read what is to be simulated.

    ``source`` is a scenario file, the name of a packaged scenario, a workload log, a run folder or a scenario;
    ``set`` overrides keys of it. Of a workload log, ``procs`` states the processors of its cluster (or ``max-procs``
    or ``peak``), ``guests`` is another log or ``das2``, ``cluster_by`` a field of the log with one cluster for each
    value, and ``site`` the name of its cluster. Raises InputError, InvalidField or UnknownName.
    """
    log_options = LogOptions(str(procs), site, cluster_by, None if guests is None else str(guests))
    if isinstance(source, Scenario):
        _refuse_log_options(log_options, source.name)
        return scenario_from_dict(overridden(source.to_dict(), set)) if set else source
    return scenario_of(str(source), log_options, set)


def scenario_of(
    source: str, log_options: LogOptions | None = None, overrides: Mapping[str, Any] | None = None
) -> Scenario:
    """Read the scenario that a name, a scenario file, a log or a run folder means.

    Raises InputError, InvalidField or UnknownName.
    """
    log_options, overrides = log_options or LogOptions(), overrides or {}
    path = Path(source)
    if format_of(path) is not None and path.exists() and not (path / MANIFEST).is_file():
        return scenario_for_log(path, log_options, overrides)
    _refuse_log_options(log_options, source)
    if source in packaged_names() and not path.is_file() and not (path / MANIFEST).is_file():
        return load_scenario(packaged_path(source), overrides)
    if path.is_dir():
        return _scenario_of_run(path, overrides)
    if path.exists() and path.suffix != ".toml":
        raise InputError(
            path,
            None,
            "is neither a scenario (.toml) nor a log (.swf, .gwf or .parquet; see also `sim from-log`)",
        )
    if not path.exists():
        known = ", ".join(packaged_names())
        raise InvalidField("SOURCE", source, f"a scenario file, a workload log, a run folder, or one of {known}")
    return load_scenario(path, overrides)


def _refuse_log_options(log_options: LogOptions, source: str) -> None:
    if log_options != LogOptions():
        expected = "a workload log: --procs, --site, --cluster-by and --guests are about logs"
        raise InvalidField("SOURCE", source, expected)


def _scenario_of_run(folder: Path, overrides: Mapping[str, Any]) -> Scenario:
    values = load(folder).manifest.get("scenario")
    if not isinstance(values, dict):
        raise InputError(folder, None, "its manifest holds no scenario")
    return scenario_from_dict(overridden(values, overrides))


def simulate(  # noqa: PLR0913 - those of `scenario`, and where the run goes
    source: Source,
    out: str | Path | None = None,
    set: Settings | None = None,  # noqa: A002 - as above
    *,
    procs: int | str = "",
    guests: str | Path | None = None,
    cluster_by: str | None = None,
    site: str = "",
    baseline: bool = True,
    report: bool = False,
) -> Run:
    """Simulate a scenario or a log (see `scenario`) and open the run.

    ``out`` is a new or empty folder; without it the run goes to ``runs/NAME-TIME``. ``baseline`` also runs the local
    jobs without guests, by which their delay is known; ``report`` also writes ``report.html``. Raises as `scenario`,
    and InvalidField for a folder that holds something.
    """
    wanted = scenario(source, set, procs=procs, guests=guests, cluster_by=cluster_by, site=site)
    run = load(run_scenario(wanted, _folder(wanted.name, out), baseline=baseline).path)
    if report:
        write_report(run, run.path / REPORT)
    return run


def _folder(name: str, out: str | Path | None) -> Path:
    if out is None:
        return new_folder(name)
    folder = Path(out)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InvalidField("out", str(folder), "a new or empty folder")
    return folder


def new_folder(name: str) -> Path:
    """Name a folder for a run that does not exist yet: ``runs/NAME-TIME``."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip("-.")
    stem = f"{plain or 'run'}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    return next(RUNS / name for name in names if not (RUNS / name).exists())


def metrics(run: Run) -> pl.DataFrame:
    """Give every metric of a run that has a value: ``metric``, ``title``, ``value``, ``unit`` and ``meaning``."""
    rows = [
        {"metric": of.key, "title": of.title, "value": float(value), "unit": of.unit, "meaning": of.meaning}
        for of, value in ((measured.CATALOGUE[key], value) for key, value in measured.totals(run).items())
        if value is not None
    ]
    return pl.DataFrame(rows)


def compare(first: Run, second: Run) -> pl.DataFrame:
    """Put two runs side by side, a row for each metric; ``verdict`` says whether the second is better.

    The columns are ``metric``, ``title``, ``unit``, ``first``, ``second``, ``difference`` (second less first),
    ``ratio`` and ``verdict``.
    """
    return measured.compare(first, second)


def validate(run: Run) -> "list[Violation]":
    """Check a run by code that shares nothing with the scheduler; gives each violation: ``rule`` and ``sentence``."""
    from leasehold.analysis.validation import validate as violations  # noqa: PLC0415 - rarely needed, and large

    return violations(run)


def gantt(run: Run, site: str | None = None, from_ms: int | None = None, to_ms: int | None = None) -> "LayerChart":
    """Draw who held which VMs of a site; by default, the site and the hours with the most contention.

    Raises UnknownName for a site that the run does not have, and LeaseholdError without the extra
    ``leasehold[report]``.
    """
    return gantt_chart(run, site, from_ms, to_ms)


SETTING, SEED = "setting", "seed"


def replicate(
    settings: Mapping[str, Source | tuple[Source, Settings]],
    seeds: int | Iterable[int] = 10,
    *,
    metrics: Sequence[str] = ("locals_delayed", "vms_preempted", "idle_lent_pct", "awrt_s"),
    workers: int | None = None,
) -> pl.DataFrame:
    """Simulate each setting with each seed, and give one row for each of these runs.

    ``settings`` names what is compared: a source, or a source and the keys that differ. All settings have the same
    requests with the same seed, so that `differences` may pair them. ``seeds`` is a number of seeds, from 1, or the
    seeds; ``workers`` is the number of processes (default: one for each processor). The columns are ``setting``,
    ``seed`` and ``metrics``, null where a run has no value. Run folders are not kept. Raises as `scenario`,
    UnknownName for another metric, and LeaseholdError without the extra ``leasehold[experiments]``.
    """
    for key in metrics:
        if key not in measured.CATALOGUE:
            raise UnknownName("metrics", key, measured.CATALOGUE)
    numbers = range(1, seeds + 1) if isinstance(seeds, int) else list(seeds)
    scenarios = {
        name: scenario(*given) if isinstance(given, tuple) else scenario(given) for name, given in settings.items()
    }
    todo = [(name, scenario(one, {"seed": seed})) for name, one in scenarios.items() for seed in numbers]
    _need("joblib")
    from leasehold.experiments.campaign import each  # noqa: PLC0415 - an extra

    done = each(partial(_numbers, tuple(metrics)), todo, workers or cpu_count() or 1)
    rows = [{SETTING: name, SEED: one.seed} | values for (name, one), values in done]
    schema = {SETTING: pl.String, SEED: pl.Int64} | dict.fromkeys(metrics, pl.Float64)
    order = {name: position for position, name in enumerate(settings)}
    return pl.DataFrame(sorted(rows, key=lambda row: (order[row[SETTING]], row[SEED])), schema=schema)


def _numbers(keys: Sequence[str], task: tuple[str, Scenario]) -> dict[str, float | None]:
    with TemporaryDirectory() as folder:
        found = measured.totals(load(run_scenario(task[1], Path(folder) / "run").path))
    return {key: None if (value := found[key]) is None else float(value) for key in keys}


def differences(replications: pl.DataFrame, against: str) -> pl.DataFrame:
    """Compare each setting of `replicate` with one of them, seed by seed.

    The columns are ``setting``, ``metric``, ``against`` and ``mean`` (means of the two settings), ``difference``
    (mean less against), ``low`` and ``high`` (its 95 % interval, by Student's t from paired seeds) and ``p``,
    adjusted by Holm's method over all rows. Seeds without a value on either side are left out. Raises UnknownName for
    another setting.
    """
    names = replications[SETTING].unique(maintain_order=True).to_list()
    if against not in names:
        raise UnknownName("against", against, names)
    _need("scipy")
    from leasehold.experiments.statistics import holm, paired  # noqa: PLC0415 - an extra

    base = replications.filter(pl.col(SETTING) == against)
    rows: list[dict[str, Any]] = []
    for name in names:
        if name == against:
            continue
        both = replications.filter(pl.col(SETTING) == name).join(base, on=SEED, suffix="_against")
        for metric in replications.columns[2:]:
            pairs = both.select(metric, f"{metric}_against").drop_nulls()
            if pairs.height < 2:  # noqa: PLR2004 - one pair has no spread
                continue
            ours, theirs = pairs[metric].to_numpy(), pairs[f"{metric}_against"].to_numpy()
            found = paired(ours, theirs)
            rows.append(
                {
                    SETTING: name,
                    "metric": metric,
                    "against": float(theirs.mean()),
                    "mean": float(ours.mean()),
                    "difference": found.difference.mean,
                    "low": found.difference.low,
                    "high": found.difference.high,
                    "p": found.p,
                }
            )
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p"] = p
    text = dict.fromkeys((SETTING, "metric"), pl.String)
    return pl.DataFrame(
        rows, schema=text | dict.fromkeys(("against", "mean", "difference", "low", "high", "p"), pl.Float64)
    )


def connect(url: str | None = None, token: str | None = None) -> "Client":
    """Connect to a live gateway; without arguments, the one that the command line would use.

    Raises LeaseholdError without the extra ``leasehold[client]``.
    """
    _need("httpx2")
    from leasehold.client import Client  # noqa: PLC0415 - an extra

    return Client(url, token)


_EXTRAS = {"joblib": "experiments", "scipy": "experiments", "httpx2": "client"}


def _need(module: str) -> None:
    if find_spec(module) is None:
        raise LeaseholdError(f"this needs {module}: pip install 'leasehold[{_EXTRAS[module]}]'")


__all__ = [
    "Run",
    "Scenario",
    "compare",
    "connect",
    "differences",
    "gantt",
    "load",
    "metrics",
    "replicate",
    "scenario",
    "simulate",
    "validate",
]
