"""One run: the published base, with every rule asked at each preemption, or with guarantees.

The same instants for all rules: each time a run is short of room, every rule is asked for its victims.

Means over the instants of a run, by rule:

=============== ==========================================================================================
leases          guests that give way
vms             VMs that they hold
excess          VMs beyond the need
overhead_vm_s   what preempting them is charged
lost_vm_s       work that is gone
beaten_pct      instants at which another candidate set is no worse by any of these, and better by one
dearer_type_pct instants at which a more valuable type is touched than all less valuable ones ask for
=============== ==========================================================================================

The rule ``optimum`` has, for each of them alone, the least that any candidate set has. Of the instants
themselves it is counted how many there were, and how many of them with one candidate set only (``forced``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from leasehold.experiments.intergrid.metrics import LeaseObserver
from leasehold.experiments.intergrid.plan import SECONDS_PER_HOUR
from leasehold.experiments.intergrid.world import as_keys, observed
from leasehold.experiments.victims.plan import INSTANTS, Variant, VictimsPlan, configuration_named
from leasehold.experiments.victims.rules import Rule
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.candidate import Candidate, VictimChoice, vms_of
from leasehold.leasing.victims.front import Objective, Score, front, score
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.effect import LeaseClosed
from leasehold.model.request import LeaseType
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import routing
from leasehold.simulation.scenario.sources import open_streams

OPTIMUM = "optimum"
MEANS = ("leases", "vms", "excess", "overhead_vm_s", "lost_vm_s")
SHARES = ("beaten_pct", "dearer_type_pct")
MOST_HALF_MADE = 200_000
MS_PER_S, PERCENT = 1_000, 100


class RuleProbe(VictimPolicy):
    """Chooses as a policy does, and notes what every rule would choose."""

    def __init__(self, policy: VictimPolicy, rules: Mapping[str, Rule]) -> None:
        """Ask these rules beside the policy that decides."""
        self.policy = policy
        self.name = policy.name
        self.rules = rules
        self.sums = Counter[str]()
        self.counts = Counter[str]()

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose as the policy does."""
        self._ask(candidates, needed_vms)
        return self.policy.choose(candidates, needed_vms)

    def _ask(self, candidates: Sequence[Candidate], needed_vms: int) -> None:
        best = front(candidates, needed_vms, MOST_HALF_MADE)
        is_forced = MinimalSets(candidates, needed_vms).count == 1
        self.counts.update(instants=1, inexact=not best.exact, forced=is_forced)
        self._add(OPTIMUM, Score(*(best.least(objective) for objective in Objective)), needed_vms)
        dearest = next(  # the first type at which all leases up to it are enough
            kind
            for kind in LeaseType
            if vms_of(lease for lease in candidates if lease.lease_type <= kind) >= needed_vms
        )
        for name, rule in self.rules.items():
            victims = rule(candidates, needed_vms)
            found = score(victims, needed_vms)
            self._add(name, found, needed_vms)
            self.sums[f"{name}:beaten_pct"] += PERCENT * best.beats(found)
            self.sums[f"{name}:dearer_type_pct"] += PERCENT * (max(lease.lease_type for lease in victims) > dearest)

    def _add(self, name: str, found: Score, needed_vms: int) -> None:
        values = (found.leases, found.excess + needed_vms, found.excess, found.overhead, found.lost)
        for key, value in zip(MEANS, values, strict=True):
            self.sums[f"{name}:{key}"] += value


def means(asked: Sequence[RuleProbe]) -> dict[str, float]:
    """Give the means over all instants of all sites, and how many instants there were."""
    sums, counts = Counter[str](), Counter[str]()
    for one in asked:
        sums.update(one.sums)
        counts.update(one.counts)
    unit = {key: MS_PER_S if key.endswith("_vm_s") else 1 for key in sums}
    found = {key: value / counts["instants"] / unit[key] for key, value in sums.items()}
    return found | {key: float(counts[key]) for key in ("instants", "inexact", "forced")}


# Whole runs


class OftenObserver(LeaseObserver):
    """Counts leases that are preempted more than once, besides all else.

    leases_twice, leases_over_three_times   leases that were preempted more than once, more than three times
    most_preemptions                        preemptions of the lease that was preempted most often
    """

    def __init__(self, sites: Iterable[SiteSettings], reference_mips: int, horizon_ms: int) -> None:
        super().__init__(sites, reference_mips, horizon_ms)
        self._times = [0]

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        super()._closed(effect, now_ms)
        self._times.append(effect.lease.preemptions)

    def read(self) -> dict[str, float]:
        """Give all metrics."""
        twice, over_three = (sum(times > bound for times in self._times) for bound in (1, 3))
        return super().read() | {
            "leases_twice": float(twice),
            "leases_over_three_times": float(over_three),
            "most_preemptions": float(max(self._times)),
        }


def measure(name: str, replication: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(*configuration_named(name), replication)


def run(plan: VictimsPlan, variant: Variant, replication: int) -> dict[str, float]:
    """Run the requests of the period to their end; returns what was measured."""
    keys = as_keys(plan.base, replication)
    made = scenario_from_dict(keys | {"defaults": keys["defaults"] | variant.keys})
    gateway = make_gateway(made, routing(made))
    probes = []
    if variant.name == INSTANTS:  # a probe before the victim policy of each site, which still decides
        for site in gateway.sites.values():
            settings = site.allocations.settings
            settings.victims = RuleProbe(settings.victims, plan.rules)
            probes.append(settings.victims)
    horizon_ms = plan.hours * SECONDS_PER_HOUR * 1_000
    found = observed(gateway, open_streams(made, []), horizon_ms, OftenObserver)
    return means(probes) if probes else found
