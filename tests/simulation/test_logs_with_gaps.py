"""Logs such as SDSC BLUE: one line in twelve is of a job that never ran, and some are parts of others."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.simulation.worlds import DAS2, tables

from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict

SLOTS = 64
LINES = 600
GUESTS = {"name": "guests", **DAS2, "alpha": 400.0}


def lines_like_blue(seed: int) -> tuple[list[str], list[str]]:
    """The lines of a log, and the numbers of the jobs in it that ran: the log's own account of itself."""
    draws = Random(seed)
    lines, ran = [], []
    at_s = 0
    for number in range(1, LINES + 1):
        at_s += draws.randrange(300)
        run_s, asked_s, procs = (
            draws.randrange(1, 4_000),
            draws.randrange(60, 8_000),
            draws.choice((8, 16, 32)),
        )
        status = 1
        kind = draws.choices(("ran", "cancelled", "sizeless", "part"), (87, 8, 3, 2))[0]
        if kind == "ran":
            ran.append(str(number))
        elif kind == "cancelled":
            run_s, status = -1, 5
        elif kind == "sizeless":
            procs = draws.choice((-1, 0))
        else:
            status = draws.choice((2, 3, 4))
        lines.append(
            f"{number} {at_s} -1 {run_s} {procs} -1 -1 {procs} {asked_s} -1 {status} {1 + number % 9} 1 -1 1 1 -1 -1"
        )
    return lines, ran


def stream(path: Path, lines: list[str], **keys: Any) -> dict[str, Any]:
    path.write_text(f"; MaxProcs: {SLOTS}\n" + "\n".join(lines) + "\n")
    return {"name": path.stem, "log": str(path), **keys}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
@pytest.mark.parametrize("guests", ["none", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("model", "log"))])
def test_its_runs_are_valid_and_account_for_every_line(tmp_path: Path, seed: int, guests: str) -> None:
    lines, ran = lines_like_blue(seed)
    streams = [stream(tmp_path / "own.swf", lines, site="blue")]
    wanted, skipped = {("own", number) for number in ran}, LINES - len(ran)
    if guests == "model":
        streams.append(GUESTS)
    elif guests == "log":
        more, others = lines_like_blue(seed + 100)
        types = {"suspendable": 1.0}
        streams.append(stream(tmp_path / "others.swf", more, external=True, types=types))
        wanted |= {("others", number) for number in others}
        skipped += LINES - len(others)
    values: dict[str, Any] = {
        "name": "blue",
        "cluster": [{"name": "blue", "slots": SLOTS}],
        "stream": streams,
    }
    if guests == "model":
        values["horizon_s"] = 10**6
    run = run_scenario(scenario_from_dict(values), tmp_path / "run")
    jobs, leases = run.manifest["jobs"], tables(run)["leases"]
    logged = leases.filter(source="own") if guests == "model" else leases
    assert set(logged.select("source", "source_id").iter_rows()) == wanted
    assert (jobs["read"], jobs["skipped"]) == (leases.height, skipped)
    assert validate(load(run.path)) == []
