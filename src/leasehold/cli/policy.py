"""``leasehold policy``: the policies of all kinds, and what each victim policy would preempt."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import Json, complete_policy, complete_victims
from leasehold.cli.screen import answer, answer_json, answer_table, wrapped
from leasehold.model.errors import UnknownName
from leasehold.model.policies import PolicyDescription

if TYPE_CHECKING:
    from leasehold.leasing.victims.candidate import Candidate
    from leasehold.leasing.victims.front import ComparedSet, VictimComparison

app = typer.Typer(help="Inspect policies.", no_args_is_help=True)


_VICTIM_COLUMNS = ("guests", "number", "VMs", "too many", "overhead", "work lost", "chosen by", "")
_VICTIM_FIGURES = range(1, 6)
_GUEST = "TYPE:VMS, TYPE:VMS:WORKED or TYPE:VMS:WORKED:TIMES, as in suspendable:4:10m:2"
_MOST_PARTS = 4

Guests = Annotated[
    list[str],
    typer.Argument(
        metavar="GUEST...",
        help="Running guests: TYPE:VMS[:WORKED[:PREEMPTIONS]].",
        show_default=False,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="Only this policy; may be repeated. Default: all, also wrapped in by-value.",
        autocompletion=complete_victims,
        show_default=False,
    ),
]


ROUTING = "routing"
VICTIMS = "victims"
BACKFILLING = "backfilling"
BROKER = "broker"
PLACEMENT = "placement"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that is part of a policy's rule."""

    name: str
    usual: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy in words.

    ``information``  what a routing policy uses: told, own history, or live state
    ``parameters``   that can be set, with their usual values and what they are
    """

    name: str
    kind: str
    question: str
    rule: str
    source: str
    information: str = ""
    parameters: tuple[Parameter, ...] = ()

    def text(self) -> str:
        """Write all that is known about it."""
        rest = (("Rule", self.rule), ("Source", self.source), ("Information", self.information))
        lines = [f"{self.name} ({self.kind})", "", wrapped(self.question)]
        parts = ["\n".join(lines), *(wrapped(f"{title}: {text}") for title, text in rest if text)]
        return "\n\n".join(parts + self._parameters())

    def _parameters(self) -> list[str]:
        """List what can be set, and how."""
        if not self.parameters:
            return []
        listed = "\n".join(wrapped(f"{one.name}={one.usual:g}: {one.meaning}", "    ") for one in self.parameters)
        first = self.parameters[0]
        return [f"  Parameters, set as in {self.name}:{first.name}={first.usual:g}:\n{listed}"]


@app.command("list")
def list_policies(json: Json = False) -> None:
    """List all policies, including those of installed packages."""
    found = all_policies()
    if json:
        answer_json({"policies": [asdict(policy) for policy in found]})
    else:
        answer_table(["name", "kind", "question"], [[p.name, p.kind, p.question] for p in found])


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_policy, show_default=False)],
    json: Json = False,
) -> None:
    """Show the question a policy answers, its rule and its source."""
    policy = policy_named(name)
    if json:
        answer_json({"policy": asdict(policy)})
    else:
        answer(policy.text())


def all_policies() -> list[Policy]:
    """Give all of them: where guests go, who gives way, when there is room, which domain, which site."""
    from leasehold.gateway.coallocation.placement.registry import describe as describe_placement
    from leasehold.gateway.coallocation.placement.registry import placement_policy_names
    from leasehold.leasing.backfill import DISCIPLINES
    from leasehold.leasing.victims.registry import describe as describe_victims
    from leasehold.leasing.victims.registry import victim_policy_names
    from leasehold.routing.registry import routing_policy_names
    from leasehold.sharing.broker_policies.registry import broker_policy_names
    from leasehold.sharing.broker_policies.registry import describe as describe_broker

    return [
        *map(_routing, routing_policy_names()),
        *(_described(VICTIMS, describe_victims(name)) for name in victim_policy_names()),
        *map(_discipline, DISCIPLINES),
        *(_described(BROKER, describe_broker(name)) for name in broker_policy_names()),
        *(_described(PLACEMENT, describe_placement(name)) for name in placement_policy_names()),
    ]


def policy_named(name: str) -> Policy:
    """Find one by its name; raises UnknownName."""
    found = {policy.name: policy for policy in reversed(all_policies())}
    if name not in found:
        raise UnknownName("policy", name, found)
    return found[name]


def _routing(name: str) -> Policy:
    from leasehold.routing.registry import describe, meanings, routing_policy, usual_values

    kind = routing_policy(name)
    usual, means = usual_values(kind), meanings(kind)
    parameters = tuple(Parameter(key, usual[key], means[key]) for key in usual)
    policy = _described(ROUTING, describe(name))
    return replace(policy, information=kind.information.label, parameters=parameters)


def _described(kind: str, described: PolicyDescription) -> Policy:
    return Policy(described.name, kind, described.question, described.rule, described.source)


_DEPTHS = {
    "fcfs": "no waiting lease has a reservation, and none overtakes another",
    "easy": "the first waiting lease has a reservation; others may overtake if they do not delay it",
    "hybrid": "the first N waiting leases have reservations (hybrid:N; N is 8 by default)",
    "conservative": "every waiting lease has a reservation, which never moves later on its own",
}


def _discipline(name: str) -> Policy:
    rule = f"{_DEPTHS[name]}. Plans are made with requested times."
    source = "JPDC 2012, section 4.1" if name == "conservative" else ""
    return Policy(name, BACKFILLING, "Which waiting lease may start when VMs are free?", rule, source)


@app.command()
def victims(
    guests: Guests,
    need: Annotated[int, typer.Option(metavar="N", min=1, help="Number of VMs needed.")],
    policy: Policies = None,
    json: Json = False,
) -> None:
    """Show which guests each victim policy would preempt, with all Pareto-optimal sets.

    Guests have 1 GiB for each VM, and preempting them takes as long as is usual. A set is beaten if another
    is no worse by guests, VMs, overhead and work lost, and better by one of them.
    """
    from leasehold.leasing.victims.front import compare
    from leasehold.leasing.victims.registry import BY_VALUE, victim_policy, victim_policy_names

    names = policy or [name for own in victim_policy_names() for name in (own, f"{BY_VALUE}{own}")]
    candidates = [_guest(number, text) for number, text in enumerate(guests, 1)]
    found = compare(candidates, need, {name: victim_policy(name) for name in names})
    if json:
        _answer_json(found)
    else:
        _show(found)


def _guest(number: int, text: str) -> "Candidate":
    """Read a guest; raises InvalidField for what is none."""
    from leasehold.leasing.overhead import OverheadModel
    from leasehold.leasing.victims.candidate import Candidate
    from leasehold.model.errors import InvalidField
    from leasehold.model.request import LEASE_TYPES, LeaseType

    kind, vms, worked, times = [*text.split(":"), "0", "0", "0"][:_MOST_PARTS]
    is_whole = vms.isdecimal() and times.isdecimal() and text.count(":") < _MOST_PARTS
    if kind not in LEASE_TYPES or not is_whole or int(vms) < 1:
        raise InvalidField("GUEST", text, _GUEST)
    lease_type, ran_ms = LEASE_TYPES[kind], _worked_ms(worked)
    if lease_type is LeaseType.NON_PREEMPTABLE:
        raise InvalidField("GUEST", text, "a type that may be preempted")
    cost_vm_ms = OverheadModel().cost_vm_ms(lease_type, 1024, int(vms))
    lost_vm_ms = int(vms) * ran_ms if lease_type is LeaseType.CANCELABLE else 0
    return Candidate(number, lease_type, int(vms), cost_vm_ms, 0, lost_vm_ms, ran_ms, int(times))


def _worked_ms(text: str) -> int:
    from leasehold.configuration.times import read_duration_s

    return 0 if text == "0" else round(1_000 * read_duration_s("GUEST", text))


def _show(found: "VictimComparison") -> None:
    answer_table(_VICTIM_COLUMNS, [_line(option) for option in found.options], figures=_VICTIM_FIGURES)
    if not found.exact:
        answer("There may be more sets that no other one beats: too many guests to look at all of them.")


def _line(option: "ComparedSet") -> list[str]:
    from leasehold.leasing.victims.candidate import ids_of, vms_of

    score = option.score
    return [
        "+".join(map(str, ids_of(option.victims))),
        str(score.leases),
        str(vms_of(option.victims)),
        str(score.excess),
        f"{score.overhead // 1_000:,} VM-s",
        f"{score.lost // 1_000:,} VM-s",
        ", ".join(option.chosen_by) or "-",
        "beaten" if option.is_beaten else "",
    ]


def _answer_json(found: "VictimComparison") -> None:
    answer_json({"exact": found.exact, "options": [_data(option) for option in found.options]})


def _data(option: "ComparedSet") -> dict[str, Any]:
    from leasehold.leasing.victims.candidate import ids_of

    score = option.score
    return {
        "guests": list(ids_of(option.victims)),
        "excess_vms": score.excess,
        "overhead_vm_ms": score.overhead,
        "lost_vm_ms": score.lost,
        "chosen_by": list(option.chosen_by),
        "beaten": option.is_beaten,
    }
