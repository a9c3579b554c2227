"""``leasehold policy victims``: whom each victim policy would preempt among guests that are made up."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import Json, complete_victims

if TYPE_CHECKING:
    from leasehold.leasing.victims.candidate import Candidate
    from leasehold.leasing.victims.front import ComparedSet, VictimComparison

_COLUMNS = ("guests", "number", "VMs", "too many", "overhead", "work lost", "chosen by", "")
_FIGURES = range(1, 6)
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
    from leasehold.cli.screen import answer, answer_table

    answer_table(_COLUMNS, [_line(option) for option in found.options], figures=_FIGURES)
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
    from leasehold.cli.screen import answer_json

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
