"""Jobs: how options and files describe one, what is printed about jobs, and what a list shows of nodes and images."""

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import join

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO, DONE
from leasehold.cli.live import times
from leasehold.cli.live.leases import (
    WOULD_BE_REFUSED,
    answered,
    count_of,
    expected_start,
    outcome_in_words,
    preemptions,
    read_memory_mib,
    steps,
)
from leasehold.cli.live.names import JOB_STATES
from leasehold.cli.live.table import Column, columns_of, pick, print_table
from leasehold.cli.live.times import read_moment, show_distance, show_duration, show_moment
from leasehold.cli.options import JobOptions
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import (
    Attempt,
    Client,
    Image,
    Job,
    JobExplanation,
    JobFilter,
    JobLog,
    JobNeeds,
    JobOutcome,
    JobPlace,
    JobProspect,
    JobResult,
    JobSpec,
    Node,
    NodeGroup,
    NodeVerdict,
    NotFound,
    OutputFile,
    PlannedJobAlternative,
    StoredFile,
)
from leasehold.client.files import download, upload
from leasehold.configuration.job_description.description import (
    DEFAULT_MEMORY_MIB,
    MOST_CORES,
    MOST_NODES,
    MOST_RESTARTS,
    JobDescription,
    Looking,
    body_of,
    read_array,
    read_between,
    read_bytes,
    read_environment,
    read_mhz,
    read_mib,
    read_software,
    read_whole,
)
from leasehold.configuration.job_description.documents import SUFFIXES, load_description, size_of
from leasehold.configuration.times import read_duration_ms
from leasehold.jobs.job import Backup
from leasehold.matching.devices import devices_of
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LEASE_TYPES
from leasehold.model.resources import parse_gpus

_OPEN = frozenset({"queued", "ordered", "running", "suspended"})
"""The states of attempts of which something may still come."""


def _sites(job: Job) -> str:
    """Say where it runs or ran: open attempts, or else the last."""
    shown = [one for one in job.attempts if one.state in _OPEN] or job.attempts[-1:]
    return ",".join(dict.fromkeys(one.site for one in shown))


JOBS = pick(
    columns_of(
        Job,
        {
            "st": Column("ST", lambda job, _: JOB_STATES.code(job.state)),
            "cores": Column("CORES", lambda job, _: str(job.needs.cores), is_figure=True),
            "memory": Column("MEM", lambda job, _: str(job.needs.memory_mib), is_figure=True),
            "nodes": Column("NODES", lambda job, _: str(job.needs.nodes), is_figure=True),
            "site": Column("SITE", lambda job, _: _sites(job)),
            "expected": Column("EXPECTED", lambda job, at: expected_start(job.expected, at)),
            "tries": Column("TRIES", lambda job, _: str(len(job.attempts)), is_figure=True),
        },
    ),
    "id,name,st,consumer,cores,memory,nodes,site,tries,submitted,expected,deadline,reason",
)


def standing(job: Job) -> str:
    """Say in one sentence how a job stands, and why."""
    again = "" if job.next_try_at is None else f"; next try by {show_moment(job.next_try_at)}"
    state = "has failed" if job.state == "failed" else f"is {job.state}"
    return f"job {job.id} {state}{_at(job)}: it {job.explanation} ({job.reason}){again}"


def _at(job: Job) -> str:
    sites = _sites(job)
    is_tried = not job.is_over and any(one.state in _OPEN for one in job.attempts)
    is_there = is_tried or job.state in {"completed", "failed"}
    return f" at {sites}" if sites and is_there else ""


def account(job: Job, at: datetime) -> Iterator[str]:
    """Tell all that is known of a job, line by line."""
    yield standing(job)
    for name, value in (*_facts(job), *_times(job, at)):
        if value:
            yield f"  {name:<11}  {value}"
    for attempt in job.attempts:
        yield f"  {f'attempt {attempt.number}':<11}  {tried(attempt)}"


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    yield "name", job.name
    yield "command", join(job.command)
    for name, value in job.environment.items():
        yield "environment", f"{name}={value}"
    yield "array", "" if job.array is None else f"{job.array}, index {job.array_index}"
    yield "consumer", f"{job.consumer}, group {job.group}" if job.group else job.consumer
    yield "needs", needed(job.needs)
    for text in job.needs.software:
        yield "software", text
    for file in job.needs.inputs:
        place = f" at {file.place}" if file.place else ""
        stored = f", SHA-256 {file.sha256}" if file.sha256 else ""
        yield "input", f"{file.name}, {show_bytes(file.size_bytes)}{place}{stored}"
    for name in job.outputs:
        yield "output", name
    yield "type", job.type
    yield "backup", job.backup if job.backup != "none" else ""
    yield "reliability", _achieved_reliability(job)
    yield "restarts", f"{job.restarts_used} of at most {job.restarts}"
    yield "exit status", "" if job.exit_status is None else str(job.exit_status)


def _times(job: Job, at: datetime) -> Iterator[tuple[str, str]]:
    yield "expected", f"in about {expected_start(job.expected, at)}" if job.expected is not None else ""
    for name, moment in (
        ("submitted", job.submitted_at),
        ("deadline", job.deadline),
        ("next try", job.next_try_at),
        ("ended", job.ended_at),
    ):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"


def needed(needs: JobNeeds) -> str:
    """Say what each node must have, and for how long."""
    cores = "1 core" if needs.cores == 1 else f"{needs.cores} cores"
    disk = f", {needs.disk_mib} MiB of disk" if needs.disk_mib else ""
    speed = f", {needs.cpu_mhz} MHz" if needs.cpu_mhz else ""
    gpus = f", GPUs {needs.gpus}" if needs.gpus else ""
    left = f" of which {needs.need} must be left" if needs.need else ""
    nodes = f", on {needs.nodes} nodes{left}" if needs.nodes > 1 else ""
    time = show_duration(needs.execution_s)
    return f"{cores}, {needs.memory_mib} MiB of memory{disk}{speed}{gpus}{nodes}, for {time}"


def _achieved_reliability(job: Job) -> str:
    if job.reliability is None:
        return ""
    plan = "" if job.surest is None else f"; planned {job.surest:.6g}"
    return f"{job.reliability:g} required{plan}"


def tried(attempt: Attempt) -> str:
    """Say what became of an attempt: where, how it stands, and why."""
    what = "in machines on" if attempt.virtual else "on"
    image = f" from {attempt.image}" if attempt.image else ""
    role = ", a backup" if attempt.backup else ""
    lease = "" if attempt.lease is None else f", lease {attempt.lease}"
    return f"{what} {', '.join(attempt.nodes)}{image}{role}{lease}: {_became(attempt)}"


_STATES = {"queued": "waits in the queue of its site", "suspended": "suspended"}


def _became(attempt: Attempt) -> str:
    why = attempt.explanation
    detail = f" ({attempt.detail})" if attempt.detail else ""
    when = f" at {show_moment(attempt.ended_at)}" if attempt.ended_at is not None else ""
    match attempt.state:
        case "ordered":
            return "kept ready" if attempt.lease is None else "starts"
        case "running":
            since = "" if attempt.started_at is None else f" since {show_moment(attempt.started_at)}"
            return f"runs{since}"
        case "succeeded":
            return f"ran to its end{when}, with exit status {attempt.exit_status}"
        case "failed":
            return f"failed{when}: {why or 'no fault was reported'}{detail}"
        case "fenced":
            return f"no longer counts{when}: {why}{detail}" if why else f"sent back to the queue{when}{detail}"
    return _STATES.get(attempt.state, attempt.state)


# Its end


NO_RESULT = "no-result"
_BEGINNING = 100
"""So many characters of the first line of a text that has lost its beginning are looked for in what is known."""
_SOONEST_S, _LATEST_S = 0.3, 3.0


def followed(client: Client, job: Job) -> Job:
    """Say whenever a job stands differently, until it is over; give it as it is then."""
    known = standing(job)
    for latest, sentence in standings(client, job.id):
        if sentence != known:
            talk(f"leasehold: {sentence}")
        job = latest
    return job


def jobs_of(client: Client, array: int) -> list[Job]:
    """Give the jobs of an array, by their numbers; raises InvalidField where there is no such array."""
    jobs = sorted(client.jobs.list(JobFilter(array=array)), key=lambda job: job.id)
    if not jobs:
        raise InvalidField("--array", array, "the ID of an array: that of its first job")
    return jobs


def standings(client: Client, job_id: int) -> Iterator[tuple[Job, str]]:
    """Give a job, and how it stands, whenever that reads differently, until it is over."""
    before = ""
    for job in client.jobs.follow(job_id):
        sentence = standing(job)
        if sentence != before or job.is_over:
            yield job, sentence
        before = sentence


def answer_output(client: Client, job: Job) -> None:
    """Give what a job that is over wrote, if anything came of it."""
    try:
        show_result(client.jobs.result(job.id))
    except NotFound as error:
        if error.problem.slug != NO_RESULT:
            raise


def show_result(result: JobResult) -> None:
    """Print what a job wrote, and say beside it what else there is to know."""
    print_written(result.output, result.error)
    for file in result.files:
        if file.problem:
            talk(f"leasehold: {file.name} is not kept: {file.problem}")
    if not result.is_kept:
        talk("leasehold: its output is no longer kept: it was too old or too large")
    elif not result.is_whole:
        talk("leasehold: this is only part of its output; the rest was not kept")
    if result.exit_status != 0:
        status = "no exit status" if result.exit_status is None else f"exit status {result.exit_status}"
        talk(f"leasehold: job {result.job} ended with {status}")


def print_written(output: str, error: str) -> None:
    """Print what a command wrote to its standard output and error to ours.

    For a program it is as it is; on a terminal, nothing of it is obeyed.
    """
    if output:
        answer(output.removesuffix("\n"), as_it_is=not sys.stdout.isatty())
    if error:
        talk(error.removesuffix("\n"), as_it_is=not sys.stderr.isatty())


def exit_status_of(job: Job) -> int:
    """Give what a command that waited for a job exits with: the status of the job's own command, if it has one."""
    if not job.is_over or job.state == "completed":
        return DONE
    return job.exit_status or ANSWER_IS_NO


def news_of(before: str, now: str) -> str:
    """Give what was written since; where ``now`` has lost its beginning meanwhile, what follows what was known.

    Of very long output that repeats itself exactly, as many lines may be missing as were lost from its beginning.
    """
    beginning = (now[: now.find("\n") + 1] or now)[:_BEGINNING]
    place = 0 if now.startswith(before) else before.find(beginning)
    while 0 <= place < len(before):
        known = before[place:]
        if now.startswith(known):
            return now[len(known) :]
        place = before.find(beginning, place + 1)
    return now


def follow_log(client: Client, job_id: int, *, is_followed: bool) -> Iterator[JobLog]:
    """Print what a job has written so far, and (followed) what it writes until it is over; gives each look.

    What the nodes of a job wrote is one text after the other, which cannot be followed: it is printed at its end.
    """
    seen = JobLog(job=job_id, attempt=0, output="", error="", is_whole=True, is_over=False)
    has_parts = is_followed and client.jobs.get(job_id).needs.nodes > 1
    pause_s = _SOONEST_S
    while True:
        log = client.jobs.output(job_id)
        yield log
        if log.attempt != seen.attempt:
            if seen.attempt:
                talk(f"leasehold: attempt {log.attempt} of job {job_id} begins")
            seen = seen.model_copy(update={"output": "", "error": ""})
        if not has_parts or log.is_over:
            output, error = news_of(seen.output, log.output), news_of(seen.error, log.error)
            print_piece(output, error)
            pause_s = _SOONEST_S if output or error else min(_LATEST_S, pause_s * 1.5)
            seen = log
        if log.is_over or not is_followed:
            return
        time.sleep(pause_s)


def print_piece(output: str, error: str) -> None:
    """Print a piece of what a command wrote, which need not end with a line; as in `print_written`."""
    if output:
        answer(output, as_it_is=not sys.stdout.isatty(), is_line=False)
    if error:
        talk(error, as_it_is=not sys.stderr.isatty(), is_line=False)


# What would become of one


_WORDS = {"fit": "yes", "wait": "not now", "never": "never"}


def answer_prospect(prospect: JobProspect, *, json: bool) -> None:
    """Answer with what would become of a job; exits with what that means."""
    if json:
        answer_json({"plan": prospect})
    else:
        answer("\n".join(_summary(prospect)))
        print_table(_HEADS, [_nodes(group) for group in prospect.groups], (0,))
    if prospect.verdict == "refused":
        raise typer.Exit(WOULD_BE_REFUSED)
    if prospect.verdict == "with-consequences":
        raise typer.Exit(ANSWER_IS_NO)


def answer_explained(told: JobExplanation) -> None:
    """Answer with what happened to a job and why, and what each node says to it now."""
    answer("\n".join([standing(told.job), *steps(told.steps), *preemptions(told.preemptions)]))
    if told.groups:
        print_table(_HEADS, [_nodes(group) for group in told.groups], (0,))


_HEADS = ["NODES", "AS THEY ARE", "IN A MACHINE", "FOR EXAMPLE"]


def _summary(prospect: JobProspect) -> Iterator[str]:
    yield f"it would be {_stands(prospect)}: it {prospect.explanation} ({prospect.reason})"
    for place in prospect.places:
        yield f"  {_place(place)}"
    if prospect.surest is not None:
        yield f"  done by its deadline with a probability of {prospect.surest:.6g}"
    there, now = prospect.elsewhere, times.now()
    if there is not None and there.answer is not None:
        yield f"  its lease {answered(there, there.answer, now)}"
    elif prospect.lease is not None and prospect.lease.verdict != "as-asked":
        yield f"  its lease {outcome_in_words(prospect.lease, now)}"
    if prospect.alternatives:
        yield "  better, each tried:"
    for one in prospect.alternatives:
        yield f"    {_difference(one)}: {_became_of(one.outcome)}"
    if prospect.untried:
        yield f"  {count_of(prospect.untried, 'other alternative')} not tried"


def _difference(one: PlannedJobAlternative) -> str:
    match one.change:
        case "software":
            return f"with {' '.join(f'--software {join([text])}' for text in one.software)}"
        case "memory":
            return f"with --memory {one.memory_mib}MiB"
        case "execution":
            return f"with --execution {show_duration(one.execution_s or 0)}"
        case "backup" | "reliability" | "deadline":
            return f"without --{one.change}"
        case _:
            return f"with --{one.change} {getattr(one, one.change)}"


def _stands(outcome: JobOutcome) -> str:
    waits = outcome.lease is not None and "waits" in outcome.lease.consequences
    return "waiting for its machines" if waits else str(outcome.state)


def _became_of(outcome: JobOutcome) -> str:
    would = f"it would be {_stands(outcome)} ({outcome.reason})"
    if outcome.lease is None or outcome.lease.verdict == "as-asked":
        return would
    return f"{would}; its lease {outcome_in_words(outcome.lease, times.now())}"


def _place(place: JobPlace) -> str:
    nodes = ", ".join(place.nodes)
    if not place.virtual:
        return f"on {nodes}"
    if place.builds:
        return f"in machines on {nodes}, once an image with {', '.join(place.builds)} is built"
    return f"in machines on {nodes}, from the image {place.image}"


def _nodes(group: NodeGroup) -> list[str]:
    return [str(group.count), *_answers(group), group.nodes[0]]


def _answers(group: NodeGroup) -> tuple[str, str]:
    as_node, as_host = _answer_of(group.as_node), _answer_of(group.as_host)
    if not group.problem:
        return as_node or "-", as_host or "-"
    down = f"down: {group.problem}"
    return f"{down}; else {as_node}" if as_node else down, f"else {as_host}" if as_host else "-"


def _answer_of(verdict: NodeVerdict | None) -> str:
    if verdict is None:
        return ""
    missing = f" ({verdict.what})" if verdict.what else ""
    why = "" if verdict.answer == "fit" else f", it {verdict.explanation}{missing}"
    return f"{_WORDS.get(verdict.answer, verdict.answer)}{why}"


# Nodes and images


def _gpus(node: Node) -> str:
    """Say how many are free, those that are in part one by one: ``2+0.5/4 a100``."""
    if not node.gpus:
        return "-"
    parts = [f"{free:g}" for free in node.free_gpus if 0 < free < 1]
    whole = sum(free == 1 for free in node.free_gpus)
    free = "+".join([str(whole)] * bool(whole or not parts) + parts)
    return f"{free}/{node.gpus} {node.gpu_model}"


def _runs(node: Node) -> str:
    parts = [name for name, is_so in (("jobs", node.runs), ("machines", node.is_host)) if is_so]
    return "+".join(parts) or "nothing"


def show_bytes(count: float) -> str:
    """Write an amount of bytes with the unit that suits it: ``700 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - the base of these units
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


_NODES = columns_of(
    Node,
    {
        "node": Column("NODE", lambda node, _: node.name),
        "state": Column("STATE", lambda node, _: "down" if node.problem else "up"),
        "cores": Column("CORES", lambda node, _: f"{node.free_cores}/{node.cores}", is_figure=True),
        "memory": Column("MEM", lambda node, _: f"{node.free_memory_mib}/{node.memory_mib}", is_figure=True),
        "disk": Column("DISK", lambda node, _: f"{node.free_disk_mib}/{node.disk_mib}", is_figure=True),
        "gpus": Column("GPUS", lambda node, _: _gpus(node), is_figure=True),
        "mhz": Column("MHZ", lambda node, _: str(node.cpu_mhz or "-"), is_figure=True),
        "software": Column("SOFTWARE", lambda node, _: str(node.packages), is_figure=True),
        "runs": Column("RUNS", lambda node, _: _runs(node)),
        "failed": Column("FAILED", lambda node, _: str(node.failures), is_figure=True),
        "seen": Column("SEEN", lambda node, at: show_distance(node.seen_at, at)),
    },
)


def node_columns(nodes: Iterable[Node]) -> list[Column[Node]]:
    """Choose the columns of a list of nodes; GPUs only where one of them has some."""
    gpus = "gpus," if any(node.gpus for node in nodes) else ""
    return pick(_NODES, f"node,state,cores,memory,disk,{gpus}mhz,software,runs,failed,seen,problem")


IMAGES = pick(
    columns_of(
        Image,
        {
            "image": Column("IMAGE", lambda image, _: image.name),
            "site": Column("SITE", lambda image, _: image.site or "-"),
            "size": Column(
                "SIZE", lambda image, _: show_bytes(image.size_bytes) if image.size_bytes else "-", is_figure=True
            ),
            "memory": Column("MEM", lambda image, _: str(image.least_memory_mib or "-"), is_figure=True),
            "software": Column(
                "SOFTWARE", lambda image, _: str(len(image.software) or len(image.packages)), is_figure=True
            ),
        },
    ),
    "image,site,state,size,memory,software,since,problem",
)
"""Of each image: where it is, or why not."""


FILES = pick(
    columns_of(
        StoredFile,
        {
            "sha256": Column("SHA256", lambda file, _: file.sha256[:16]),
            "size": Column("SIZE", lambda file, _: show_bytes(file.size_bytes), is_figure=True),
            "arrived": Column(
                "ARRIVED",
                lambda file, _: "all" if file.is_complete else show_bytes(file.received_bytes),
                is_figure=True,
            ),
        },
    ),
    "sha256,name,size,arrived,created",
)
"""Of each file: how large it is, and how much of it has arrived."""


def found_file(client: Client, which: str) -> StoredFile:
    """Find a file by its name, or its SHA-256 or the beginning of it; raises InvalidField where it is not one."""
    files = client.files.list()
    found = [
        file for file in files if file.name == which or (len(which) >= _LEAST_HASH and file.sha256.startswith(which))
    ]
    if len(found) != 1:
        expected = "the name or the SHA-256 of one of your files"
        raise InvalidField("FILE", which, expected if not found else f"{expected}: {len(found)} have this name")
    return found[0]


_LEAST_HASH = 8


# A job as the command line describes it: a file, options, or a file with options that change it


_ELSEWHERE = re.compile(r"(?P<name>.+):(?P<size>[^:@]+)@(?P<site>[^:@]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def read_description(options: JobOptions) -> JobDescription:
    """Read what is described. The first word is a file if it ends as one does; the others are the command.

    Raises InputError for the file, and InvalidField for an option.
    """
    words = options.words or []
    is_file = bool(words) and words[0].lower().endswith(SUFFIXES)
    command = tuple(words[1:] if is_file else words)
    base = _from_file(Path(words[0])) if is_file else _blank(command, options)
    return _changed(base, command or base.command, options)


def _from_file(path: Path) -> JobDescription:
    """Read a file; the paths in it begin where it is."""
    at = times.now()
    looking = Looking(
        moment_ms=lambda field, text: _unix_ms(read_moment(field, text, at)),
        size_of=lambda field, text: size_of(field, text, path.parent),
    )
    description = load_description(path, looking)
    inputs = tuple(
        replace(file, address=str(path.parent / file.address)) if file.address and not file.place else file
        for file in description.needs.inputs
    )
    return replace(description, needs=replace(description.needs, inputs=inputs))


def _blank(command: tuple[str, ...], options: JobOptions) -> JobDescription:
    if not command:
        expected = "what to run, after --, or a file with a description (.json or .xml)"
        raise InvalidField("COMMAND", None, expected)
    if not options.execution:
        raise InvalidField("--execution", None, "how long it is thought to run, such as 90m")
    amounts = Amounts(cores=1, memory_mib=DEFAULT_MEMORY_MIB)
    return JobDescription(command=command, needs=Needs(amounts=amounts, execution_ms=1))


def _changed(base: JobDescription, command: tuple[str, ...], options: JobOptions) -> JobDescription:
    changed = replace(
        base,
        command=command,
        needs=_needs(base.needs, options),
        name=options.name or base.name,
        environment=_environment(base.environment, options.environment or []),
        array=read_array("--array", options.array) if options.array else base.array,
        group=options.group or base.group,
        deadline_ms=_deadline_ms(options) if options.deadline else base.deadline_ms,
        reliability=base.reliability if options.reliability is None else _reliability(options.reliability),
        backup=Backup(_named("--backup", options.backup, list(Backup))) if options.backup else base.backup,
        lease_type=LEASE_TYPES[_named("--type", options.lease_type, list(LEASE_TYPES))]
        if options.lease_type
        else base.lease_type,
        restarts=_whole("--restarts", options.restarts, base.restarts, 0, MOST_RESTARTS),
    )
    if changed.reliability is not None and changed.deadline_ms is None:
        raise InvalidField("--deadline", None, "a time: --reliability is the probability of ending by then")
    return changed


def _needs(base: Needs, options: JobOptions) -> Needs:
    usual = base.amounts
    asked = parse_gpus(options.gpus, "--gpus") if options.gpus else (base.gpu_model, base.gpu_milli)
    return Needs(
        amounts=Amounts(
            cores=_whole("--cores", options.cores, usual.cores, 1, MOST_CORES),
            memory_mib=read_memory_mib(options.memory) if options.memory else usual.memory_mib,
            disk_mib=read_mib("--disk", options.disk, "MiB") if options.disk else usual.disk_mib,
            gpus=devices_of(asked[1]),
        ),
        gpu_model=asked[0],
        execution_ms=read_duration_ms("--execution", options.execution) if options.execution else base.execution_ms,
        nodes=(nodes := _whole("--nodes", options.nodes, base.nodes, 1, MOST_NODES)),
        need=_whole("--need", options.need, base.need, 0, nodes),
        cpu_mhz=read_mhz("--cpu-speed", options.cpu_speed, "MHz") if options.cpu_speed else base.cpu_mhz,
        software=tuple(read_software("--software", text) for text in options.software)
        if options.software
        else base.software,
        inputs=tuple(map(_input, options.inputs)) if options.inputs else base.inputs,
        outputs=tuple(options.outputs) if options.outputs else base.outputs,
    )


def _environment(base: tuple[tuple[str, str], ...], given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read ``NAME=VALUE``, or ``NAME`` for the value that it has here; they override those of a description."""
    variables = dict(base)
    for text in given:
        name, is_given, value = text.partition("=")
        if not is_given and name not in os.environ:
            raise InvalidField("--env", text, "NAME=VALUE, or the name of a variable that is set here")
        variables[name] = value if is_given else os.environ[name]
    return read_environment("--env", variables)


def _whole(field: str, value: int | None, usual: int, least: int, most: int) -> int:
    return usual if value is None else read_whole(field, value, least, most)


def _reliability(value: float) -> float:
    return read_between("--reliability", value, 0, 1)


def _named(field: str, name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise UnknownName(field, name, known)
    return name


def _deadline_ms(options: JobOptions) -> int:
    return _unix_ms(read_moment("--deadline", options.deadline, times.now()))


def _unix_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _input(text: str) -> InputFile:
    """Read ``NAME:SIZE@SITE``, or look at a file of this machine."""
    found = _ELSEWHERE.fullmatch(text)
    if found is not None and not Path(text).exists():
        return InputFile(found["name"], read_bytes("--input", found["size"]), found["site"])
    return InputFile(Path(text).name or text, size_of("--input", text), "", address=text)


def stored_inputs(client: Client, description: JobDescription) -> JobDescription:
    """Store the inputs of a job that are files of this machine at the gateway, which brings them to where it runs."""
    inputs = tuple(_stored(client, file) for file in description.needs.inputs)
    return replace(description, needs=replace(description.needs, inputs=inputs))


def _stored(client: Client, file: InputFile) -> InputFile:
    if file.place or not file.address:
        return file
    stored = upload(client, Path(file.address), file.name)
    return replace(file, size_bytes=stored.size_bytes, sha256=stored.sha256)


def get_files(client: Client, job_id: int, names: Sequence[str], folder: Path) -> list[OutputFile]:
    """Write the files that a job left behind, all or these, into a folder; raises InvalidField for one it has not."""
    files = client.jobs.result(job_id).files
    known = {file.name: file for file in files}
    for name in names:
        if name not in known:
            raise InvalidField("NAME", name, f"one of {', '.join(known) or 'none: the job has no output files'}")
    chosen = [known[name] for name in names] if names else list(files)
    for file in chosen:
        if file.sha256:
            read = partial(client.jobs.read_file, job_id, file.name)
            download(read, file.sha256, file.size_bytes, folder / file.name)
    return chosen


def spec_of(description: JobDescription) -> JobSpec:
    """Give what the client asks a gateway with."""
    deadline_ms = description.deadline_ms
    deadline = None if deadline_ms is None else _EPOCH + deadline_ms * _MILLISECOND
    return JobSpec.of(**body_of(description), deadline=deadline)
