"""Leases: what a list shows of each, what is printed about one, how options describe one, and following changes."""

import asyncio
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from shlex import join

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO, DONE, exit_code
from leasehold.cli.live import times
from leasehold.cli.live.gateway import advising, patience
from leasehold.cli.live.names import LEASE_STATES
from leasehold.cli.live.table import (
    Column,
    answer_line,
    cell,
    columns_of,
    figures,
    heads,
    make_table,
    pick,
    print_rows,
    rows,
)
from leasehold.cli.live.times import show_distance, show_duration, show_moment, show_times
from leasehold.cli.screen import answer, answer_json, talk, terminal
from leasehold.client import (
    AnswerElsewhere,
    AsyncClient,
    BlockedSite,
    Change,
    Client,
    DomainOffer,
    Elsewhere,
    ExpectedStart,
    ExplainedPreemption,
    ExplainedStep,
    JournalEntry,
    Lease,
    LeaseExplanation,
    LeaseFilter,
    LeasePlan,
    Lost,
    MachineAccess,
    PlannedAlternative,
    PlannedOutcome,
    ProblemError,
    RuleReading,
    Site,
)
from leasehold.configuration.job_description.description import read_mib
from leasehold.model.errors import InputError, InvalidField, LeaseholdError
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.protocol.plans import ENOUGH_FUTURES

_REASON_MATTERS = frozenset(LeaseState) - {LeaseState.RUNNING, LeaseState.COMPLETED}


def time_used_s(lease: Lease, at: datetime) -> float:
    """Say for how long a lease has lasted since its first start, suspensions included; 0 before it."""
    if lease.started_at is None:
        return 0.0
    return ((lease.ended_at or at) - lease.started_at).total_seconds()


def site_or_reason(lease: Lease) -> str:
    """Say where a lease is; and why, in parentheses, where it does not just run."""
    reason = f"({lease.reason})" if lease.reason and lease.state in _REASON_MATTERS else ""
    return " ".join(filter(None, (lease.site, reason)))


def _left(lease: Lease, at: datetime) -> str:
    return "" if lease.ends_at is None else show_duration((lease.ends_at - at).total_seconds())


def expected_start(one: ExpectedStart | None, at: datetime) -> str:
    """Say in how much time something is expected to start, and its 90 % interval; empty where that is not known."""
    if one is None:
        return ""
    leads = (max(0.0, (when - at).total_seconds()) for when in (one.expected_at, one.earliest_at, one.latest_at))
    expected, earliest, latest = map(show_duration, leads)
    return f"{expected} ({earliest} to {latest})"


COLUMNS = columns_of(
    Lease,
    {
        "expected": Column("EXPECTED", lambda lease, at: expected_start(lease.expected, at)),
        "id": Column("ID", lambda lease, _: str(lease.id)),
        "st": Column("ST", lambda lease, _: LEASE_STATES.code(lease.state)),
        "time": Column("TIME", lambda lease, at: show_duration(time_used_s(lease, at)), is_figure=True),
        "left": Column("TIME_LEFT", _left, is_figure=True),
        "duration": Column("TIME_LIMIT", lambda lease, _: show_duration(lease.duration_s), is_figure=True),
        "memory": Column("MIB", lambda lease, _: str(lease.memory_mib), is_figure=True),
        "site-reason": Column("SITE(REASON)", lambda lease, _: site_or_reason(lease)),
        "start": Column("START", lambda lease, _: cell(lease.started_at or lease.planned_start_at)),
        "end": Column("END", lambda lease, _: cell(lease.ended_at or lease.ends_at)),
        "command": Column("COMMAND", lambda lease, _: " ".join(lease.command)),
    },
)
DEFAULT = "id,name,type,consumer,st,time,vms,site-reason"


def answer_leases(
    leases: "Iterable[Lease]", columns: "Sequence[Column[Lease]]", limit: int, *, json: bool, head: bool = True
) -> None:
    """Answer with the first so many of these leases, 0 for all, and say where there are more."""
    found = list(islice(leases, limit + 1 if limit else None))
    shown = found[:limit] if limit else found
    if json:
        answer_json({"leases": shown, "more": len(found) > len(shown)})
    else:
        print_rows(columns, shown, head=head)
    if len(found) > len(shown):
        talk(f"leasehold: there are more than these {limit}; --limit 0 lists all of them")


def read_columns(text: str) -> list[Column[Lease]]:
    """Read which columns are wanted, with commas between; raises UnknownName."""
    return pick(COLUMNS, text) or pick(COLUMNS, DEFAULT)


# What is said about leases, in sentences


ADVICE: dict[str, str] = {
    Reason.WIDER_THAN_SITE: "Ask for fewer VMs: `leasehold site list` shows how many there are.",
    Reason.WIDER_THAN_ANY_SITE: "Ask for fewer VMs: `leasehold site list` shows how many there are.",
    Reason.WIDER_THAN_DOMAIN: "Ask for fewer VMs, or leave --domain out.",
    Reason.DEADLINE_TOO_TIGHT: "Ask for less time, or for a later --deadline.",
    Reason.NO_ROOM_AT_READY_TIME: "A later --ready may do; a suspendable or cancelable lease may wait.",
    Reason.NON_PREEMPTABLE_NOT_ALLOWED: "A suspendable or migratable lease needs no such permission.",
    Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE: "Ask for fewer VMs, or for a migratable lease.",
    Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED: "A migratable lease can be preempted without losing its work.",
    Reason.NON_PREEMPTABLE_TOO_LONG: "Ask for less time, or for a migratable lease.",
    **dict.fromkeys(
        (Reason.NO_AGREEMENT, Reason.PREEMPTABLE_ONLY, Reason.NOT_A_MEMBER, Reason.AGREEMENT_REVOKED),
        "An agreement would admit it (`leasehold agreement propose`), or without_agreement in [sharing].",
    ),
    Reason.LOCAL_QUEUE_CLOSED: "Try again when the site has free VMs: `leasehold site list` shows it.",
    Reason.NO_CAPABLE_SITE: "A cancelable lease needs none of these capabilities; see `leasehold site capabilities`.",
    Reason.POLICY_REFUSED: "`leasehold lease logs` names the policy.",
}
"""What to do about a refusal, by its reason."""


def standing(lease: Lease) -> str:
    """Say in one sentence how a lease stands, and why."""
    why = f": it {lease.explanation} ({lease.reason})" if lease.explanation else ""
    start = lease.planned_start_at
    promise = "" if start is None else f"; it starts by {show_moment(start)}, or sooner if resources become free"
    return f"{_place(lease)}{why}{promise}"


def ending(lease: Lease, at: datetime) -> str:
    """Say in one sentence until when a lease will hold its machines; or that its site was asked to extend it."""
    if lease.asked_duration_s is not None:
        return f"{_place(lease)}; {_extension_asked(lease)}"
    end = lease.ends_at
    until = "" if end is None else f", and ends {show_moment(end)} ({show_distance(end, at)})"
    return f"{_place(lease)}{until}"


def _extension_asked(lease: Lease) -> str:
    if lease.asked_duration_s is None:
        return ""
    wanted = show_duration(lease.asked_duration_s)
    return f"{lease.site} was asked to let it last {wanted} in all, and has not answered yet"


def asked_back(lease: Lease, site: Site | None, at: datetime) -> str:
    """Say what becomes of a lease that was cancelled, where its site has something to do yet; else nothing.

    One that decides for itself has to stop the lease first. Where the machines of another do not answer, the
    lease is over, and the order to stop them waits.
    """
    if not may_have_machines(lease):
        return ""
    if site is None or site.status != "unreachable":
        return "" if lease.is_over else f"  its cancellation was requested: {lease.site} stops it, and says so"
    seen = site.last_seen_at
    since = "" if seen is None else f" since {show_moment(seen)} ({show_distance(seen, at)})"
    if lease.is_over:
        return f"  {lease.site} has not answered{since}: machines that may be left there are stopped as soon as it does"
    return (
        f"  its cancellation was requested: {lease.site} has not answered{since},"
        " and stops it as soon as it does; until then its machines may go on"
    )


def by_the_clock(duration_s: float, walltime_s: float | None, site: str) -> str:
    """Say a duration, which is that of machines of the reference speed, and how long it is at a site.

    Empty where that is the same, or not known.
    """
    if walltime_s is None or abs(walltime_s - duration_s) < 1:
        return ""
    return f"{show_duration(duration_s)} at the reference speed, {show_duration(walltime_s)} at {site}"


def lasting(lease: Lease) -> str:
    """Say in one sentence how long a lease lasts, where that is another time at its site; else nothing."""
    both = by_the_clock(lease.duration_s, lease.walltime_s, lease.site)
    return f"it lasts {both}" if both else ""


def may_have_machines(lease: Lease) -> bool:
    """Whether machines of a lease that was cancelled may be at its site still, if that does not answer."""
    return bool(lease.site) and (not lease.is_over or lease.state is LeaseState.CANCELLED)


def is_asked_back(lease: Lease, journal: Iterable[JournalEntry]) -> bool:
    """Whether a lease that is not over was cancelled, and its site has been asked to stop it."""
    return bool(lease.site) and not lease.is_over and any(line.what == "recalled" for line in journal)


def _place(lease: Lease) -> str:
    return f"lease {lease.id} is {lease.state}" + (f" at {lease.site}" if lease.site else "")


def has_ended_well(lease: Lease) -> bool:
    """Whether a lease that is over gave what was asked for; machines without a command end by the clock."""
    by_the_clock = lease.state is LeaseState.KILLED and not lease.command
    return lease.state is LeaseState.COMPLETED or by_the_clock


def happening(event: Change | JournalEntry) -> str:
    """Say in one line what happened."""
    number = f"  {event.lease or '-':>6}" if isinstance(event, Change) else ""
    return f"{show_moment(event.at)}{number}  {_what(event)}{_planned(event)}"


def history(entries: Iterable[JournalEntry]) -> Iterator[str]:
    """Say line by line what happened; what follows in the same second in the same words is said once.

    Where the same was decided several times in that second, the line says how often, and what came of the
    last time.
    """
    alike: list[JournalEntry] = []
    for entry in entries:
        if alike and not _repeats(entry, alike[0]):
            yield _repeated_line(alike)
            alike = []
        alike.append(entry)
    if alike:
        yield _repeated_line(alike)


def _repeats(entry: JournalEntry, first: JournalEntry) -> bool:
    """Whether an entry says nothing new.

    What is decided for all sites repeats what was for one; that a lease ended repeats why, in fewer words.
    """
    if (show_moment(entry.at), entry.state) != (show_moment(first.at), first.state):
        return False
    same = entry.reason == first.reason if entry.what == "closed" else _why(entry) == _why(first)
    return same and entry.site in {first.site, ""}


def _repeated_line(alike: Sequence[JournalEntry]) -> str:
    """Say what happened, and how often; that a lease ended follows from a decision, and is not counted."""
    first = alike[0]
    times = sum((entry.what, entry.site) == (first.what, first.site) for entry in alike)
    often = f", {show_times(times)}" if times > 1 else ""
    return f"{show_moment(first.at)}  {_what(first)}{often}{_planned(alike[-1])}"


def _what(event: Change | JournalEntry) -> str:
    return f"{event.state or '-':<10}  {event.site or '-':<12}  {_why(event)}"


def _why(event: Change | JournalEntry) -> str:
    if event.what == "notified":
        return f"is told by {event.detail.get('by')}: {event.detail.get('notice_s'):g} s until it is preempted"
    if event.what == "extension-asked":
        return f"its site was asked to let it last {show_duration(event.detail.get('duration_ms', 0) / 1000)} in all"
    return f"{event.explanation} ({event.reason})" if event.explanation else event.what


def _planned(event: Change | JournalEntry) -> str:
    """Say for when a decision planned a lease, "" where it planned nothing."""
    planned_ms = (event.detail or {}).get("planned_ms")
    if not isinstance(planned_ms, int) or planned_ms < 0:
        return ""
    return f"; planned for {show_moment(datetime.fromtimestamp(planned_ms / 1000, UTC))}"


def account(lease: Lease, at: datetime) -> Iterator[str]:
    """Tell all that is known of a lease, line by line."""
    yield standing(lease)
    for name, value in _facts(lease, at):
        if value:
            yield f"  {name:<10}  {value}"


def _facts(lease: Lease, at: datetime) -> Iterator[tuple[str, str]]:
    yield "name", lease.name
    yield "project", lease.project
    yield "type", f"{lease.type}, local at {lease.home}" if lease.local else lease.type
    yield "consumer", f"{lease.consumer}, group {lease.group}" if lease.group else lease.consumer
    yield "came by", ", ".join(lease.came_by)
    yield "went on to", ", ".join(lease.onward)
    yield "global ID", lease.global_id
    vms, memory = ("1 VM", "") if lease.vms == 1 else (f"{lease.vms} VMs", " each")
    both = by_the_clock(lease.duration_s, lease.walltime_s, lease.site)
    duration = both or show_duration(lease.duration_s)
    yield "asked for", f"{vms} with {lease.memory_mib} MiB{memory} for {duration}"
    yield "extension", _extension_asked(lease)
    yield "image", lease.image
    yield "bound to", lease.domain
    yield "coallocation", "" if lease.coallocation is None else f"a component of co-allocation {lease.coallocation}"
    yield "notify", lease.notify
    yield "claims", cell(lease.claims)
    yield "command", join(lease.command)
    for name, moment in _moments(lease):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"
    yield "disturbed", _disturbances(lease)


def _moments(lease: Lease) -> Iterator[tuple[str, datetime | None]]:
    yield "submitted", lease.submitted_at
    yield "ready", lease.ready_at if lease.ready_at != lease.submitted_at else None
    yield "deadline", lease.deadline_at
    yield "planned", lease.planned_start_at
    yield "started", lease.started_at
    yield "checkpoint", lease.checkpointed_at
    yield "ends", lease.ends_at
    yield "ended", lease.ended_at


def _disturbances(lease: Lease) -> str:
    told = [f"preempted {show_times(lease.preemptions)}, moved {show_times(lease.migrations)}"]
    told = told if lease.preemptions or lease.migrations else []
    if lease.restarts:
        told.append(f"began again {show_times(lease.restarts)} after its machines were lost")
    return ", ".join(told)


# Several that are cancelled, each for itself


@dataclass(slots=True)
class Cancellations:
    """What became of each; ``code`` is the exit code of the first that did not work."""

    leases: list[Lease] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)
    code: int = DONE


def cancel_each(client: Client, lease_ids: Sequence[int]) -> Cancellations:
    """Take leases back, one after the other; one that cannot be does not stand in the way of the others."""
    done = Cancellations()
    for lease_id in lease_ids:
        try:
            done.leases.append(client.leases.cancel(lease_id))
        except ProblemError as error:
            done.problems[lease_id] = str(error)
            done.code = done.code or exit_code(error)
    return done


# What options say, and the answer to a submission


def read_claims(texts: Iterable[str]) -> dict[str, int]:
    """Read claims such as ``licence:matlab=2``; raises InvalidField."""
    claims: dict[str, int] = {}
    for text in texts:
        resource, _, units = text.rpartition("=")
        if not resource or not (units.isascii() and units.isdigit()) or int(units) < 1:
            raise InvalidField("--claim", text, "a resource and how many of it, such as licence:matlab=2")
        claims[resource] = claims.get(resource, 0) + int(units)
    return claims


def read_memory_mib(text: str) -> int:
    """Read the memory of a machine, such as ``2GiB``; raises InvalidField."""
    return read_mib("--memory", text, "MiB", least=1)


_SSH_PORT = 22


def read_ssh_key(file: Path) -> str:
    """Read a public key from a file such as ``id_ed25519.pub``; raises InvalidField or InputError."""
    try:
        text = file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise InputError(file, None, f"cannot be read: {error.strerror}") from error
    if "PRIVATE KEY" in text:
        public = file.with_name(f"{file.name}.pub")
        raise InvalidField("--ssh-key", str(file), f"a public key, and this one is private: perhaps {public}")
    if len(text.splitlines()) != 1:
        raise InvalidField("--ssh-key", str(file), "a file with one public key, such as id_ed25519.pub")
    return text


def login(place: MachineAccess) -> str:
    """Write the command that logs in to a machine."""
    port = "" if place.port == _SSH_PORT else f"-p {place.port} "
    return f"ssh {port}{place.user}@{place.host}" if place.user else f"ssh {port}{place.host}"


def show_number(lease: Lease) -> None:
    """Answer with the number of a lease, and say beside it how it stands."""
    answer(str(lease.id))
    _say(lease)


def show_json(lease: Lease) -> None:
    """Answer with all that is known of a lease."""
    answer_json({"lease": lease})
    if lease.state is LeaseState.REFUSED:
        _say(lease)


def is_a_no(lease: Lease) -> bool:
    """Whether a lease is not, and will not be, what was asked for."""
    return lease.is_over and not has_ended_well(lease)


def _say(lease: Lease) -> None:
    talk(f"leasehold: {standing(lease)}")
    if duration := lasting(lease):
        talk(f"leasehold: {duration}")
    if lease.state is LeaseState.REFUSED and lease.reason in ADVICE:
        talk(f"leasehold: {ADVICE[lease.reason]}")


# What would become of a request that was not made


WOULD_BE_REFUSED = 3
"""What `plan` exits with then; a defect, which has the same number, leaves standard output empty."""

_PLAN_CODES = {"as-asked": DONE, "with-consequences": ANSWER_IS_NO, "refused": WOULD_BE_REFUSED}


def answer_plan(plan: LeasePlan, duration_s: float, at: datetime, *, json: bool) -> None:
    """Answer with what would become of a lease of this duration; exits with what that means."""
    if json:
        answer_json({"plan": plan})
    else:
        answer("\n".join(_planned_lines(plan, duration_s, at)))
    raise typer.Exit(_PLAN_CODES[plan.verdict])


def _planned_lines(plan: LeasePlan, duration_s: float, at: datetime) -> Iterator[str]:
    yield _verdict(plan, at)
    if plan.state is LeaseState.REFUSED and plan.reason in ADVICE:
        yield f"  {ADVICE[plan.reason]}"
    if duration := by_the_clock(duration_s, plan.walltime_s, plan.site):
        yield f"  it would last {duration}"
    if plan.ends_at is not None:
        yield f"  it would end {_when(plan.ends_at, at)}, unless it is preempted or extended"
    yield from _foreseen(plan, at)
    yield from _costs(plan, at)
    for one in plan.risk:
        share = f"{100 * one.preempted / one.ended:.0f} %"
        yield f"  preempted at {one.site} lately: {one.preempted} of {one.ended} {one.type} leases ({share})"
    yield from could_run("open to it", plan.sites, plan.blocked)
    yield from scores(plan.domains)
    for rule in plan.readings:
        yield f"  {_reading(rule)}"
    yield from instead(plan.alternatives, plan.untried, at)


def _foreseen(plan: LeasePlan, at: datetime) -> Iterator[str]:
    """Tell when it starts in simulated futures, and how likely it is preempted: as it is, and as other types."""
    for number, one in enumerate(plan.foreseen):
        if one.refused_share == 1:
            continue
        start = "start at an unknown time"
        if one.earliest_at is not None and one.expected_at is not None and one.latest_at is not None:
            leads = [
                max(0.0, (when - at).total_seconds()) for when in (one.expected_at, one.earliest_at, one.latest_at)
            ]
            expected, earliest, latest = map(show_duration, leads)
            start = f"start in about {expected}, with 90 % between {earliest} and {latest}"
        head = f"in {count_of(one.futures, 'simulated future')}" if number == 0 else f"as {one.type}"
        risk = f"; preempted in {one.preempted_share:.0%}" if one.futures >= ENOUGH_FUTURES else ""
        yield f"  {head}: {start}{risk}"


def _when(moment: datetime, at: datetime) -> str:
    return f"{show_moment(moment)} ({show_distance(moment, at)})"


def count_of(many: int, noun: str) -> str:
    """Say how many there are of something: ``1 lease``, ``2 leases``."""
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"


def _costs(plan: LeasePlan, at: datetime) -> Iterator[str]:
    """Tell at whose cost a lease would start: those that may be seen each, the others by their number."""
    if plan.preempted_leases:
        yield f"  {count_of(plan.preempted_leases, 'lease')} with {plan.preempted_vms} VMs would be preempted for it"
        for victim in plan.victims:
            goes_on = "" if victim.resumes_at is None else f", continues {_when(victim.resumes_at, at)}"
            size = count_of(victim.vms, "VM")
            yield f"    lease {victim.lease} ({victim.type}, {size} at {victim.site}): {victim.then}{goes_on}"
    if plan.delayed_leases:
        yield f"  {count_of(plan.delayed_leases, 'waiting lease')} would start later"
        for late in plan.delays:
            to = "at an unknown time" if late.to_at is None else _when(late.to_at, at)
            yield f"    lease {late.lease} at {late.site}: {to} instead of {_when(late.from_at, at)}"
    for agreement in plan.penalised:
        yield f"  its consumer would be punished for breaking the agreement {agreement}"


def _reading(rule: RuleReading) -> str:
    used, limit, left = (f"{100 * share:.1f}%" for share in (rule.used_share, rule.limit_share, rule.left_share))
    window = show_duration(rule.window_s)
    return (
        f"agreement {rule.agreement} at {rule.site}: {used} of {limit} of {rule.resource} used in {window}, {left} left"
    )


def instead(alternatives: Sequence[PlannedAlternative], untried: int, at: datetime) -> Iterator[str]:
    """Tell which other requests would be better off."""
    if alternatives:
        yield "  better, each tried:"
    for one in alternatives:
        yield f"    {_difference(one, at)}: {outcome_in_words(one.outcome, at)}"
    if untried:
        yield f"  {count_of(untried, 'other alternative')} not tried, since too many leases are open"


def _difference(one: PlannedAlternative, at: datetime) -> str:
    if one.change == "ready" and one.ready is not None:
        return f"with --ready {show_moment(one.ready)} ({show_distance(one.ready, at)})"
    if one.change == "duration" and one.duration_s is not None:
        return f"with --duration {show_duration(one.duration_s)}"
    if one.change == "vms":
        return f"with --vms {one.vms}"
    return f"with --domain {one.domain}" if one.change == "site" else f"with --type {one.type}"


def outcome_in_words(outcome: PlannedOutcome, at: datetime) -> str:
    """Tell what would become of a lease."""
    cost = f", with {outcome.preempted_vms} VMs preempted" if outcome.preempted_vms else ""
    if outcome.verdict == "refused":
        return f"would be refused ({outcome.reason})"
    if "decided-elsewhere" in outcome.consequences:
        return f"would be offered to {outcome.site}, which decides for itself"
    if outcome.state is LeaseState.HELD:
        return f"would wait at the gateway ({outcome.reason}){cost}"
    if outcome.state is LeaseState.WAITING:
        start = "" if outcome.starts_at is None else f" until {_when(outcome.starts_at, at)}"
        return f"would wait at {outcome.site}{start}{cost}"
    return f"would start now at {outcome.site}{cost}"


def _verdict(plan: LeasePlan, at: datetime) -> str:
    why = f"{plan.explanation} ({plan.reason})"
    there = plan.elsewhere
    if there is not None and there.answer is not None:
        return answered(there, there.answer, at)
    if there is not None:
        free = "1 VM was" if there.free_vms == 1 else f"{there.free_vms} VMs were"
        owner = f"the peer {there.name}" if there.peer else there.name
        where = f" {there.hops} hop{'s' if there.hops > 1 else ''} beyond it" if there.hops else ""
        heard = "" if there.reported_at is None else f", {show_distance(there.reported_at, at)}"
        return f"would be offered to {owner}, which decides for itself; {free} free{where} at its last report{heard}"
    if plan.verdict == "refused":
        return f"would be refused: it {why}"
    if plan.state is LeaseState.HELD:
        return f"would wait at the gateway: it {why}"
    if plan.state is LeaseState.WAITING:
        start = plan.starts_at
        until = "" if start is None else f" until {_when(start, at)}"
        return f"would wait at {plan.site}{until}: it {why}"
    return f"would start now at {plan.site} ({plan.reason})"


def answered(there: Elsewhere, said: AnswerElsewhere, at: datetime) -> str:
    """Tell what whoever decides on a request says when asked."""
    owner = f"the peer {there.name}" if there.peer else there.name
    return f"would be offered to {owner}, which decides for itself and says that {_answer_of(said, at)}"


def _answer_of(said: AnswerElsewhere, at: datetime) -> str:
    cost = f", with {said.preempted_vms} VMs preempted" if said.preempted_vms else ""
    where = f"at {said.onward[-1]}, which it would go on to" if said.onward else "there"
    if said.passed_on:
        to = f"to {said.onward[-1]}" if said.onward else "to one of its sites"
        return f"it would be passed on {to}, which has not answered"
    if said.state.is_final:
        return f"it would be refused {where}: it {said.explanation} ({said.reason})"
    if said.state is LeaseState.WAITING or said.starts_at is None:
        start = "" if said.starts_at is None else f" until {_when(said.starts_at, at)}"
        return f"it would wait {where}{start}{cost} ({said.reason})"
    return f"it would start now {where}{cost}" if said.onward else f"it would start there now{cost}"


def could_run(head: str, sites: Sequence[str], blocked: Iterable[BlockedSite]) -> Iterator[str]:
    """Tell where something could run, and which sites agreements close to it."""
    yield f"  {head}: {', '.join(sites) or 'no site'}"
    for one in blocked:
        yield f"    not {one.site}: {one.explanation} ({one.reason})"


def scores(domains: Iterable[DomainOffer]) -> Iterator[str]:
    """Tell how the broker sees the virtual domains."""
    for offer in domains:
        used = f"{100 * offer.used_share:.1f}% used, penalty {offer.penalty}"
        yield f"  {offer.domain}: score {offer.score}, {offer.free_vms} VMs free, {used}"


# Why


def explained(told: LeaseExplanation, at: datetime) -> Iterator[str]:
    """Tell what happened to a lease and why, who took its machines, and what would help."""
    yield standing(told.lease)
    yield from steps(told.steps)
    yield from preemptions(told.preemptions)
    if told.now is not None:
        again = "would be refused again" if told.now.verdict == "refused" else outcome_in_words(told.now, at)
        yield f"  submitted now: {again} ({told.now.reason})"
    yield from instead(told.alternatives, told.untried, at)


def steps(told: Iterable[ExplainedStep]) -> Iterator[str]:
    """Tell what was decided, each in a line, with what each site said to it."""
    yield "  what happened:"
    for step in told:
        why = f"{step.explanation} ({step.reason})" if step.explanation else step.what
        often = f", {show_times(step.times)}" if step.times > 1 else ""
        plan = "" if step.planned_at is None else f"; planned for {show_moment(step.planned_at)}"
        yield f"    {show_moment(step.at)}  {step.site or 'gateway':<12}  {why}{often}{plan}"
        for one in step.sites:
            yield f"      not {one.site}: {one.explanation} ({one.reason})"


def preemptions(told: Iterable[ExplainedPreemption]) -> Iterator[str]:
    """Tell of each preemption for whom, by which rule, at what cost, and what would have avoided it."""
    for one in told:
        yield f"  preempted {show_moment(one.at)} at {one.site}, for {one.for_whom}"
        cost = "" if one.cost_vm_s is None else f"; this lease costs {show_duration(one.cost_vm_s)} of VM time"
        yield f"    rule {one.rule}{_together(one)}{cost}"
        if one.considered:
            yield f"    {_competition(one)}"
        if one.tried:
            yield f"    {_spared(one)}"


def _together(one: ExplainedPreemption) -> str:
    named = [str(number) for number in one.victims if number != one.lease]
    others = [f"lease{'s' if len(named) > 1 else ''} {', '.join(named)}"] if named else []
    if one.victims_hidden:
        others.append(f"{count_of(one.victims_hidden, 'lease')} of others")
    return f", together with {' and '.join(others)}" if others else ""


def _competition(one: ExplainedPreemption) -> str:
    """Tell from how many sets of victims the rule chose, and why the second best lost."""
    pool = "" if one.candidates is None else f" of {count_of(one.candidates, 'lease')} that could give way"
    optimum = "" if one.exact else ", not all of them looked at"
    chosen = f"chosen from {count_of(one.considered, 'set')}{pool}{optimum}"
    if one.runner_up == "none":
        return f"{chosen}; there was no second best"
    it = "with this lease too" if one.runner_up == "with-this-lease" else "without this lease"
    dear = "" if one.runner_up_cost is None else f", at {one.runner_up_cost:.2f} times the cost"
    return f"{chosen}; the second best by the rule was {it}{dear}"


def _spared(one: ExplainedPreemption) -> str:
    ways = [
        f"with {count_of(way.vms, 'VM')}" if way.by == "vms" else f"as a {way.type} lease"
        for way in one.spared_as
        if way.by != "alone"
    ]
    if ways:
        return f"it would have been spared {' or '.join(ways)} (tried)"
    if one.spared_as:
        return "no type or width would have saved it: the others could not have freed enough (tried)"
    return "it would not have been spared as another type, or with fewer VMs (tried)"


# Leases as they change: line by line until they are over, or as a list that is always up to date


REDRAW_S = 1.0
"""A list on the screen is redrawn this often, for its clocks, and looked up no more often than that."""

Paint = Callable[[Sequence[Lease]], None]

_FINAL = frozenset(str(state) for state in LeaseState if state.is_final)


@contextmanager
def going_on(lease_ids: Sequence[int]) -> Iterator[None]:
    """Say beside a connection that ended that the leases are not over, and how to follow them again."""
    try:
        yield
    except Lost as error:
        command = " ".join(["leasehold lease watch", *map(str, lease_ids)])
        advice = f"the connection ended, the leases go on; `{command}` follows them again"
        raise Lost(error.url, f"{error.why} ({advice})", error.key) from error


def until_over(client: Client, lease_ids: Sequence[int]) -> Iterator[Change]:
    """Tell what happened to these leases, and go on until all of them are over."""
    latest = dict.fromkeys(lease_ids, 0)
    left = set(lease_ids)
    with closing(_changes(client, lease_ids)) as changes:
        for change in changes:
            number = change.lease or 0
            if change.seq <= latest[number]:
                continue
            latest[number] = change.seq
            yield change
            if change.state in _FINAL:
                left.discard(number)
            if not left:
                return


def _changes(client: Client, lease_ids: Sequence[int]) -> Generator[Change, None, None]:
    """Give the journals of these leases, then what comes after the first of them ends, some of it twice."""
    journals = [[_change(number, entry) for entry in client.leases.journal(number)] for number in lease_ids]
    yield from sorted((change for journal in journals for change in journal), key=lambda change: change.seq)
    ends = [journal[-1].seq if journal else 0 for journal in journals]
    yield from client.leases.watch(*lease_ids, after=min(ends))


def _change(lease_id: int, entry: JournalEntry) -> Change:
    return Change(lease=lease_id, job=None, consumer="", **dict(entry))


async def keep_painting(which: LeaseFilter, paint: Paint) -> None:
    """Show the requested leases, again at each change; does not end.

    Raises whatever asking raises.
    """
    async with AsyncClient(retry=patience()) as client:
        stale = asyncio.Event()
        with advising(client.access):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_note_changes(client, stale))
                    group.create_task(_paint_on(client, stale, which, paint))
            except* LeaseholdError as errors:
                raise errors.exceptions[0] from None


async def _note_changes(client: AsyncClient, stale: asyncio.Event) -> None:
    async with aclosing(client.leases.watch(opened=stale.set)) as changes:
        async for _ in changes:
            stale.set()


async def _paint_on(client: AsyncClient, stale: asyncio.Event, which: LeaseFilter, paint: Paint) -> None:
    await stale.wait()
    leases: list[Lease] = []
    while True:
        if stale.is_set():
            stale.clear()
            leases = [lease async for lease in client.leases.list(which)]
        paint(leases)
        await asyncio.sleep(REDRAW_S)


def waited_for(client: Client, lease: Lease) -> Lease:
    """Say what happens to a lease until it is over, and give it as it is then."""
    if lease.is_over:
        return lease
    try:
        with going_on([lease.id]):
            for change in until_over(client, [lease.id]):
                talk(happening(change))
    except KeyboardInterrupt:
        talk(
            f"leasehold: lease {lease.id} continues; `leasehold lease watch {lease.id}` follows it, "
            f"`leasehold lease cancel {lease.id}` ends it"
        )
        raise
    return client.leases.get(lease.id)


def watch(client: Client, which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    """Show leases, and for ever what becomes of them: without a terminal, in one line for each change."""
    if sys.stdout.isatty():
        _watch_on_screen(which, columns, head=head)
    else:
        _watch_in_lines(client, which, columns, head=head)


def _watch_in_lines(client: Client, which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    """Print the list once changes are listened to, so that none falls between the two; then print these."""

    @cache
    def show_once() -> None:
        print_rows(columns, client.leases.list(which), head=head)

    with closing(client.leases.watch(opened=show_once)) as changes:
        for change in changes:
            if _concerns(change, which):
                answer_line(happening(change))


def _concerns(change: Change, which: LeaseFilter) -> bool:
    """Whether a change is about the site and the consumer that are asked for, if any are."""
    site, consumer = which.site, which.consumer
    return (not site or change.site == site) and (not consumer or change.consumer == consumer)


def _watch_on_screen(which: LeaseFilter, columns: Sequence[Column[Lease]], *, head: bool) -> None:
    from rich.live import Live

    with Live(console=terminal(), auto_refresh=False) as live:

        def paint(leases: Sequence[Lease]) -> None:
            shown = rows(leases, columns, times.now())
            live.update(make_table(heads(columns), shown, figures(columns), head=head), refresh=True)

        asyncio.run(keep_painting(which, paint))
