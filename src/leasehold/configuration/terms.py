"""On which terms a cluster lends: ``[defaults]``, and ``[[cluster]]`` beside its name and size."""

from dataclasses import dataclass, field
from math import floor
from typing import Annotated

from leasehold.configuration.declaration import (
    Below,
    Choice,
    Flag,
    Number,
    Plain,
    Seconds,
    Table,
    Text,
    Whole,
    Within,
    differing,
)
from leasehold.configuration.keys import Keys
from leasehold.configuration.policies import VictimPolicyName, find_victim_policy
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.backfill import REPAIRS, reservation_depth
from leasehold.leasing.overhead import OverheadModel, Storage
from leasehold.leasing.victims.guard import Guard, by_value
from leasehold.leasing.victims.policy import VictimPolicy

LOCAL_QUEUES = ("queue", "refuse")
LIVE_POLICY = "hybrid:100"
"""The backfilling discipline of sites behind a live gateway whose owners say nothing else."""


def _discipline(name: str) -> str:
    reservation_depth(name)
    return name


GUARD = Table(
    Guard,
    keys={
        "least_run_ms": Seconds(
            "how long a guest works before it is preempted while others could be",
            more=", after it started or came back; 0: no time",
        ),
        "least_run_resumes": Whole(
            "and so many times as long as it took to come back",
            more=", which is to load its memory again, or to move it",
            least=0,
        ),
        "most_preemptions": Whole("how often one guest is preempted while others could be; 0: any number", least=0),
        "surcharge": Number(
            "how much dearer each earlier preemption makes a guest",
            more=" to a policy that weighs costs, as a share of its cost",
            name="repeat_surcharge",
            least=0,
            most=1_000,
        ),
        "halves_ms": Seconds("after so much work since, that is half", name="repeat_surcharge_halves_s", least_ms=1),
    },
)
"""What a cluster guarantees its guests, whoever chooses the victims."""

OVERHEAD = Table(
    OverheadModel,
    "What it costs to preempt a guest.",
    {
        "suspend_ms_per_gib": Whole("milliseconds to save 1 GiB of memory", least=0),
        "resume_ms_per_gib": Whole("milliseconds to load it", least=0),
        "network_mbps": Whole("the link to other clusters, in 10^6 bit/s"),
        "migrate_fixed_ms": Whole("milliseconds of each move, whatever its size", least=0),
        "terminate_ms": Whole("milliseconds to end a Cancelable lease", least=0),
        "storage": Choice(
            "whether nodes save side by side (`local`), or the VMs of a lease one after the other (`shared`)",
            of=Storage,
        ),
        "vms_per_node": Whole("VMs that share the disk of a node"),
    },
)


@dataclass(frozen=True, slots=True)
class ClusterTerms:
    """What the owner of a cluster decides about it, apart from its name and size."""

    speed_mips: Annotated[
        int,
        Whole(
            "speed of one slot",
            more=": a request of *d* seconds takes *d* · `reference_mips` / `speed_mips`; without this key"
            " it is `reference_mips`",
        ),
    ] = 1
    local_policy: Annotated[
        str,
        Text(
            "backfilling for the owner's users: fcfs, easy, conservative, ...",
            more=" or `hybrid:N`, with at most N reservations",
            convert=_discipline,
        ),
    ] = "conservative"
    guest_policy: Annotated[str, Text("backfilling for guests", more=", the same", convert=_discipline)] = (
        "conservative"
    )
    victims: Annotated[
        str,
        VictimPolicyName(
            "who gives way: leasehold policy list",
            more=" ([victim policies](policies.md)), or `file.py:name`",
        ),
    ] = "moml"
    value_order: Annotated[
        bool,
        Flag(
            "and only after all less valuable lease types",
            more=": a more valuable type is preempted only if the less valuable ones are not enough",
        ),
    ] = True
    guard: Annotated[Guard, Within("guarantees", GUARD)] = field(default_factory=Guard)
    local_queue: Annotated[
        str, Choice("queue or refuse a local request that cannot start at once", of=LOCAL_QUEUES)
    ] = "queue"
    non_preemptable_share: Annotated[
        float | None,
        Number(
            "part of the slots that Non-preemptable guests may have",
            more=", components of co-allocations among them; 1 caps nothing. `leasehold serve` requires"
            " `non_preemptable_max_s` beside a share above 0",
            unset="all",
            least=0,
            most=1,
        ),
    ] = None
    non_preemptable_max_ms: Annotated[
        int | None,
        Seconds("the longest such guest", more=", also after it was extended", unset="any", least_ms=1),
    ] = None
    repair: Annotated[
        str,
        Choice(
            "which guests are planned anew after the owner's users took room",
            more=": only those in conflict (`conflicts`), or all (`replan`)",
            of=REPAIRS,
        ),
    ] = "conflicts"
    overhead: Annotated[
        OverheadModel,
        Below("what it costs to preempt a guest", OVERHEAD, more=": the table below", unset="that of JPDC 2012"),
    ] = field(default_factory=OverheadModel)


TERMS = Table(ClusterTerms, "On which terms clusters lend that say nothing else.")


def read_terms(keys: Keys, defaults: ClusterTerms) -> ClusterTerms:
    """Read the terms of a cluster, or those of all clusters, and refuse keys that are no terms.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    return TERMS.read(keys, defaults)


def terms_to_dict(terms: ClusterTerms, defaults: ClusterTerms) -> Plain:
    """Give the keys of ``[[cluster]]`` that ``[defaults]`` does not say."""
    own, common = TERMS.to_dict(terms), TERMS.to_dict(defaults)
    overhead = differing(own.pop("overhead"), common.pop("overhead"))
    return differing(own, common) | ({"overhead": overhead} if overhead else {})


def site_settings(name: str, slots: int, terms: ClusterTerms) -> SiteSettings:
    """Give the settings of a cluster of this name and size; raises as `find_victim_policy` does.

    A share of 1 caps nothing: what is reserved for different times may be more than there is at one time.
    """
    share = terms.non_preemptable_share
    return SiteSettings(
        name=name,
        slots=slots,
        victims=victims_of(terms),
        speed_mips=terms.speed_mips,
        local_depth=reservation_depth(terms.local_policy),
        guest_depth=reservation_depth(terms.guest_policy),
        queues_locals=terms.local_queue == "queue",
        non_preemptable_share_vms=None if share is None or share == 1 else floor(share * slots),
        non_preemptable_max_ms=terms.non_preemptable_max_ms,
        overhead=terms.overhead,
        repair=REPAIRS[terms.repair],
    )


def victims_of(terms: ClusterTerms) -> VictimPolicy:
    """Find who gives way here: the policy, the order of the types before it, the guarantees before both.

    Raises as `find_victim_policy` does.
    """
    chosen = terms.guard.within(find_victim_policy(terms.victims))
    return terms.guard.around(by_value(chosen) if terms.value_order else chosen)
