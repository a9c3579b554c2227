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
            "minimum run time of a guest before it is preempted, if others can be",
            more=", counted from its start or its return; 0: none",
        ),
        "least_run_resumes": Whole(
            "the same, as a multiple of the time that its return took",
            more=": to load its memory again, or to move it",
            least=0,
        ),
        "most_preemptions": Whole(
            "maximum number of preemptions of a guest, if others can be preempted; 0: unlimited", least=0
        ),
        "surcharge": Number(
            "surcharge on the cost of a guest for each earlier preemption",
            more=", for policies that weigh costs, as a share of its cost",
            name="repeat_surcharge",
            least=0,
            most=1_000,
        ),
        "halves_ms": Seconds(
            "run time after which a surcharge is halved", name="repeat_surcharge_halves_s", least_ms=1
        ),
    },
)
"""What a cluster guarantees its guests, whatever the victim policy."""

OVERHEAD = Table(
    OverheadModel,
    "Cost of preempting a guest.",
    {
        "suspend_ms_per_gib": Whole("milliseconds to save 1 GiB of memory", least=0),
        "resume_ms_per_gib": Whole("milliseconds to load 1 GiB of memory", least=0),
        "network_mbps": Whole("bandwidth of the link to other clusters, in 10^6 bit/s"),
        "migrate_fixed_ms": Whole("milliseconds of each migration, independent of its size", least=0),
        "terminate_ms": Whole("milliseconds to terminate a Cancelable lease", least=0),
        "storage": Choice(
            "nodes save in parallel (`local`), or the VMs of a lease one after the other (`shared`)",
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
            more=": a request of *d* seconds takes *d* · `reference_mips` / `speed_mips`; absent: `reference_mips`",
        ),
    ] = 1
    local_policy: Annotated[
        str,
        Text(
            "backfilling of local requests: fcfs, easy, conservative, ...",
            more=" or `hybrid:N`, with at most N reservations",
            convert=_discipline,
        ),
    ] = "conservative"
    guest_policy: Annotated[str, Text("backfilling of guests", more=", with the same values", convert=_discipline)] = (
        "conservative"
    )
    victims: Annotated[
        str,
        VictimPolicyName(
            "victim policy (leasehold policy list)",
            more=": [victim policies](policies.md), or `file.py:name`",
        ),
    ] = "moml"
    value_order: Annotated[
        bool,
        Flag(
            "preempt the less valuable lease types first",
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
            "maximum share of the slots for Non-preemptable guests",
            more=", including components of co-allocations; 1: no limit. `leasehold serve` requires"
            " `non_preemptable_max_s` with a share above 0",
            unset="all",
            least=0,
            most=1,
        ),
    ] = None
    non_preemptable_max_ms: Annotated[
        int | None,
        Seconds("longest duration of a Non-preemptable guest", more=", including extensions", unset="any", least_ms=1),
    ] = None
    notice_ms: Annotated[
        int,
        Seconds(
            "longest delay of a local start for telling a guest that it will be preempted",
            more="; only guests that ask for notice get it, and no longer than until they report a checkpoint. Live"
            " sites only; 0: none",
            most_ms=600_000,
        ),
    ] = 0
    repair: Annotated[
        str,
        Choice(
            "guests that are replanned after local requests took room",
            more=": those in conflict (`conflicts`), or all (`replan`)",
            of=REPAIRS,
        ),
    ] = "conflicts"
    overhead: Annotated[
        OverheadModel,
        Below("cost of preempting a guest", OVERHEAD, more=": the table below", unset="that of JPDC 2012"),
    ] = field(default_factory=OverheadModel)


TERMS = Table(ClusterTerms, "Terms of clusters that do not set their own.")


def read_terms(keys: Keys, defaults: ClusterTerms) -> ClusterTerms:
    """Read the terms of a cluster, or those of all clusters, and refuse other keys.

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
        notice_ms=terms.notice_ms,
    )


def victims_of(terms: ClusterTerms) -> VictimPolicy:
    """Find who gives way here: the policy, the order of the types before it, the guarantees before both.

    Raises as `find_victim_policy` does.
    """
    chosen = terms.guard.within(find_victim_policy(terms.victims))
    return terms.guard.around(by_value(chosen) if terms.value_order else chosen)
