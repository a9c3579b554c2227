"""Accounting of Slurm, made: jobs as facts, written as sacct prints them, in each of its forms.

``python -m tests.workload.accounting 300 > examples/accounting.txt`` writes the sample of the documentation.
"""

import json
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

FIELDS = (
    *("JobIDRaw", "JobID", "Cluster", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start"),
    *("End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES"),
    "AllocTRES",
)


@dataclass(frozen=True)
class Fact:
    """What happened to a job; seconds since 1970, None: it did not, or is not known."""

    number: int
    submit_s: int
    eligible_s: int | None
    start_s: int | None
    end_s: int | None
    elapsed_s: int
    state: str = "COMPLETED"
    limit_min: int | None = 60
    nodes: int = 1
    cpus: int = 1
    asked_cpus: int = 1
    memory_mib: int = 1000
    gpus: int = 0
    gpu_model: str = ""
    user: str = "ada"
    account: str = "physics"
    partition: str = "main"
    qos: str = "normal"
    cluster: str = "alpha"

    @property
    def held(self) -> bool:
        return self.start_s is not None and not (self.state.startswith("CANCELLED") and not self.elapsed_s)


def span(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def local(seconds: int | None) -> str:
    return "Unknown" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def tres(fact: Fact, cpus: int) -> str:
    gpus = f",gres/gpu={fact.gpus}" if fact.gpus else ""
    gpus += f",gres/gpu:{fact.gpu_model}={fact.gpus}" if fact.gpus and fact.gpu_model else ""
    return f"billing={cpus},cpu={cpus}{gpus},mem={fact.memory_mib}M,node={fact.nodes}"


def values(fact: Fact) -> dict[str, str]:
    """What sacct prints of a job, by field."""
    limit = "UNLIMITED" if fact.limit_min is None else ""
    return {
        "JobIDRaw": str(fact.number),
        "JobID": str(fact.number),
        "Cluster": fact.cluster,
        "User": fact.user,
        "Account": fact.account,
        "Partition": fact.partition,
        "QOS": fact.qos,
        "State": fact.state,
        "Submit": local(fact.submit_s),
        "Eligible": local(fact.eligible_s),
        "Start": local(fact.start_s),
        "End": local(fact.end_s),
        "Elapsed": span(fact.elapsed_s),
        "ElapsedRaw": str(fact.elapsed_s),
        "Timelimit": limit or span(60 * (fact.limit_min or 0)),
        "TimelimitRaw": limit or str(fact.limit_min),
        "NNodes": str(fact.nodes),
        "NCPUS": str(fact.cpus),
        "ReqCPUS": str(fact.asked_cpus),
        "ReqMem": f"{fact.memory_mib}M",
        "ReqTRES": tres(fact, fact.asked_cpus),
        "AllocTRES": tres(fact, fact.cpus) if fact.held else "",
    }


def text(facts: list[Fact], fields: tuple[str, ...] = FIELDS, *, steps: bool = False, epoch: bool = False) -> str:
    """``sacct --parsable2`` with its header; with ``steps`` without ``--allocations``."""
    lines = ["|".join(fields)]
    for fact in facts:
        said = values(fact)
        if epoch:
            moments = (fact.submit_s, fact.eligible_s, fact.start_s, fact.end_s)
            said |= {
                name: "Unknown" if moment is None else str(moment)
                for name, moment in zip(("Submit", "Eligible", "Start", "End"), moments, strict=True)
            }
        lines.append("|".join(said[name] for name in fields))
        if steps and fact.held:
            step = said | {
                "JobIDRaw": f"{fact.number}.batch",
                "JobID": f"{fact.number}.batch",
                "User": "",
                "ReqTRES": "",
            }
            lines.append("|".join(step[name] for name in fields))
    return "\n".join(lines) + "\n"


def json_text(facts: list[Fact], *, wrapped: bool) -> str:
    """``sacct --json``; ``wrapped`` as from data_parser v0.0.40 on, with ``{set, infinite, number}``."""

    def number(value: int | None) -> object:
        if not wrapped:
            return value
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def resources(fact: Fact, cpus: int) -> list[dict[str, object]]:
        found: list[tuple[str, str | None, int | None]] = [("cpu", None, cpus), ("mem", None, fact.memory_mib)]
        found += [("energy", None, None), ("node", None, fact.nodes), ("billing", None, cpus)]
        found += [("gres", "gpu", fact.gpus)] if fact.gpus else []
        found += [("gres", f"gpu:{fact.gpu_model}", fact.gpus)] if fact.gpus and fact.gpu_model else []
        return [{"type": kind, "name": name, "id": 1, "count": count} for kind, name, count in found]

    def job(fact: Fact) -> dict[str, Any]:
        state = fact.state.partition(" ")[0]
        return {
            "account": fact.account,
            "array": {"job_id": 0, "task_id": number(None)},
            "association": {"account": fact.account, "cluster": fact.cluster, "partition": None, "user": fact.user},
            "cluster": fact.cluster,
            "time": {
                "elapsed": fact.elapsed_s,
                "eligible": fact.eligible_s or 0,
                "end": fact.end_s or 0,
                "start": fact.start_s or 0,
                "submission": fact.submit_s,
                "limit": {"set": True, "infinite": True, "number": 0}
                if wrapped and fact.limit_min is None
                else number(fact.limit_min),
            },
            "het": {"job_id": 0, "job_offset": number(None)},
            "job_id": fact.number,
            "partition": fact.partition,
            "qos": fact.qos,
            "required": {"CPUs": fact.asked_cpus, "memory": 0},
            "state": {"current": [state] if wrapped else state, "reason": "None"},
            "steps": [{"step": {"id": "batch"}, "tres": {"requested": {}}}],
            "tres": {
                "allocated": resources(fact, fact.cpus) if fact.held else [],
                "requested": resources(fact, fact.asked_cpus),
            },
            "user": fact.user,
        }

    document = {"meta": {"plugin": {"jobs": [{"job_id": 1}]}}, "errors": [], "jobs": list(map(job, facts))}
    return json.dumps(document, indent=1)


def busy_days(count: int, seed: int = 1, cpus: int = 64) -> list[Fact]:
    """Make so many jobs of a cluster, started in order as it has room, with a quiet hour every night."""
    draw = random.Random(seed)
    ends: list[tuple[int, int]] = []
    now_s, free_s = 1_767_571_200, 0
    facts = []
    for number in range(1, count + 1):
        now_s += int(draw.expovariate(1 / 1500))
        if now_s // 3600 % 24 < 7:
            now_s += int(draw.expovariate(1 / 3600))
        wants = draw.choice([1, 1, 2, 4, 4, 8, 16, 32])
        runs_s = min(max(int(draw.lognormvariate(8.2, 1.2)), 20), 86_400)
        limit_min = max(10, round(runs_s * draw.choice([1.1, 1.5, 3, 8]) / 600) * 10 + 10)
        start_s = max(now_s, free_s)
        while sum(width for end_s, width in ends if end_s > start_s) + wants > cpus:
            start_s = min(end_s for end_s, _ in ends if end_s > start_s)
        free_s = start_s
        ends = [(end_s, width) for end_s, width in ends if end_s > start_s] + [(start_s + runs_s, wants)]
        state = draw.choice(["COMPLETED"] * 8 + ["FAILED", "TIMEOUT"])
        user = draw.choice(["ada", "grace", "alan", "edsger", "barbara", "donald"])
        group = {"ada": "physics", "grace": "physics", "alan": "biology"}.get(user, "climate")
        facts.append(
            Fact(
                number,
                now_s,
                now_s,
                start_s,
                start_s + runs_s,
                runs_s,
                state,
                limit_min,
                cpus=wants,
                asked_cpus=wants,
                memory_mib=2000 * wants,
                user=user,
                account=group,
            )
        )
    return facts


if __name__ == "__main__":
    asked = tuple(name for name in FIELDS if name not in {"JobID", "Elapsed", "Timelimit"})
    sys.stdout.write(text(busy_days(int(sys.argv[1])), asked))
