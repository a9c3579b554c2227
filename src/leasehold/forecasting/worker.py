"""Forecasts in a process of their own, so that whoever asks for them goes on.

``python -m leasehold.forecasting.worker`` reads requests from its standard input and answers on its standard output,
one after the other, until the input ends. Each message is eight bytes with its length, then that many bytes: a line of
JSON, and below it a snapshot or a result. A process that dies or takes too long takes nothing along.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, process_time
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from leasehold.forecasting.calibration import Calibration
from leasehold.forecasting.estimates import Foreseen, LeaseEstimates, estimate, foresee
from leasehold.forecasting.file import snapshot_bytes, snapshot_of
from leasehold.forecasting.futures import Forecast
from leasehold.forecasting.parent import end_with
from leasehold.forecasting.snapshot import Snapshot
from leasehold.forecasting.what_if import Change, Comparison, compare
from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.model.request import LeaseType, Request

LENGTH = 8
_NICE = 5
_PATIENCE = 6
_MOST_COMPARED = 5_000
"""Instants of one future of what-if: so few that some pairs of them are simulated in the time that a gateway gives."""
"""How many times its budget of processor time a forecast may take by the clock, where the machine is busy."""
_ESTIMATES = TypeAdapter(list[LeaseEstimates])
_COMPARISON = TypeAdapter(Comparison)
_CHANGES: TypeAdapter[tuple[Change, ...]] = TypeAdapter(tuple[Change, ...])
_FORESEE = TypeAdapter(tuple[Request, tuple[LeaseType, ...]])
_FORESEEN = TypeAdapter(list[Foreseen])
_JOBS = TypeAdapter(tuple[Request, ...])
Json = dict[str, Any]


class ForecastFailed(LeaseholdError):
    """A forecast could not be made."""


def ask_estimates(
    snapshot: Snapshot,
    memory: Sequence[Json],
    about: Sequence[int],
    jobs: Sequence[Request] = (),
    *,
    replications: int,
    seed: int,
    budget_s: float,
) -> bytes:
    """Write a request for estimates about some leases and jobs, for at most about so many seconds of work."""
    asked = {"memory": list(memory), "about": list(about), "jobs": _JOBS.dump_python(tuple(jobs), mode="json")}
    return _message(
        asked | {"replications": replications, "seed": seed, "budget_s": budget_s}, snapshot_bytes(snapshot)
    )


def ask_comparison(
    snapshot: Snapshot, changes: Sequence[Change], *, horizon_ms: int, replications: int, seed: int, budget_s: float
) -> bytes:
    """Write a request to compare a snapshot with itself after changes, for at most about so many seconds of work."""
    asked = {"changes": _CHANGES.dump_python(tuple(changes), mode="json"), "horizon_ms": horizon_ms}
    return _message(
        asked | {"replications": replications, "seed": seed, "budget_s": budget_s}, snapshot_bytes(snapshot)
    )


def ask_foreseen(
    snapshot: Snapshot,
    memory: Sequence[Json],
    request: Request,
    kinds: Sequence[LeaseType],
    *,
    replications: int,
    seed: int,
    budget_s: float,
) -> bytes:
    """Ask what would come of a request as each of these lease types, for at most about so many seconds of work."""
    asked = {"memory": list(memory), "foresee": _FORESEE.dump_python((request, tuple(kinds)), mode="json")}
    return _message(
        asked | {"replications": replications, "seed": seed, "budget_s": budget_s}, snapshot_bytes(snapshot)
    )


def read_foreseen(answer: bytes) -> list[Foreseen]:
    """Read the answer; raises InvalidField or ForecastFailed where it says so."""
    return _FORESEEN.validate_json(_answered(answer))


def cpu_s(answer: bytes) -> float:
    """Say how much processor time an answer took."""
    return float(json.loads(answer.partition(b"\n")[0])["cpu_s"])


def read_estimates(answer: bytes) -> list[LeaseEstimates]:
    """Read the answer; raises InvalidField or ForecastFailed where it says so."""
    return _ESTIMATES.validate_json(_answered(answer))


def read_comparison(answer: bytes) -> Comparison:
    """Read the answer; raises InvalidField or ForecastFailed where it says so."""
    return _COMPARISON.validate_json(_answered(answer))


def _message(head: Json, body: bytes) -> bytes:
    return json.dumps(head).encode() + b"\n" + body


def _answered(answer: bytes) -> bytes:
    line, _, body = answer.partition(b"\n")
    head = json.loads(line)
    if "field" in head:
        raise InvalidField(head["field"], head["value"], head["expected"])
    if "problem" in head:
        raise ForecastFailed(head["problem"])
    return body


def answer(request: bytes) -> bytes:
    """Answer one request; an error is an answer, too."""
    line, _, body = request.partition(b"\n")
    began_s, head, found = process_time(), Json(), b""
    try:
        found = _answer(json.loads(line), body)
    except InvalidField as error:
        value = error.value if isinstance(error.value, str | int | float | None) else repr(error.value)
        head = {"field": error.field, "value": value, "expected": error.expected}
    except Exception as error:  # noqa: BLE001 - a defect in a future must not end the process
        head = {"problem": f"{type(error).__name__}: {error}"}
    return _message(head | {"cpu_s": process_time() - began_s}, found)


def _answer(asked: Mapping[str, Any], body: bytes) -> bytes:
    budget_s = asked["budget_s"]
    cpu_until_s, until_s = process_time() + budget_s, monotonic() + _PATIENCE * budget_s
    snapshot = snapshot_of(body)

    may_go_on = partial(_is_left, cpu_until_s, until_s)
    if "changes" in asked:
        changes = _CHANGES.validate_json(json.dumps(asked["changes"]), strict=True)
        how = Forecast(
            asked["replications"], asked["seed"], asked["horizon_ms"], most_instants=_MOST_COMPARED, may_go_on=may_go_on
        )
        return _COMPARISON.dump_json(compare(snapshot, changes, how))
    how = Forecast(asked["replications"], asked["seed"], may_go_on=may_go_on)
    if "foresee" in asked:
        request, kinds = _FORESEE.validate_json(json.dumps(asked["foresee"]))
        calibration = Calibration.recalled(asked["memory"])
        parts = [budget_s * (len(kinds) - turn) / len(kinds) for turn in range(len(kinds))]  # none has all of the time
        hows = {
            kind: replace(how, may_go_on=partial(_is_left, cpu_until_s - part_s, until_s - _PATIENCE * part_s))
            for kind, part_s in zip(kinds, [*parts[1:], 0.0], strict=True)
        }
        return _FORESEEN.dump_json(foresee(snapshot, calibration, hows, request))
    jobs = _JOBS.validate_json(json.dumps(asked["jobs"]))
    found = estimate(snapshot, Calibration.recalled(asked["memory"]), how, asked["about"], jobs)
    return _ESTIMATES.dump_json(found)


def _is_left(cpu_until_s: float, until_s: float) -> bool:
    """Whether there is time left, of the processor and by the clock."""
    return process_time() < cpu_until_s and monotonic() < until_s


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while len(length := source.read(LENGTH)) == LENGTH:
        found = answer(source.read(int.from_bytes(length, "big")))
        sink.write(len(found).to_bytes(LENGTH, "big") + found)
        sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal means whoever started us
    end_with(int(sys.argv[1]))
    os.nice(_NICE)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:  # whoever asked has ended; to end in the usual way would try to write once more
        os._exit(0)
