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
from collections.abc import Mapping, Sequence

from leasehold.experiments.intergrid.metrics import LeaseObserver
from leasehold.experiments.intergrid.plan import SECONDS_PER_HOUR
from leasehold.experiments.intergrid.world import as_keys
from leasehold.experiments.victims.plan import INSTANTS, Plan, Variant, configuration_named
from leasehold.experiments.victims.rules import Rule
from leasehold.gateway.gateway import Gateway
from leasehold.leasing.victims.candidate import Candidate, CandidateSet, Choice, vms_of
from leasehold.leasing.victims.front import Front, front
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.objectives import Objective, Score, score
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.model.effect import LeaseClosed
from leasehold.model.request import LeaseType
from leasehold.simulation.kernel import World
from leasehold.simulation.run import collecting_less_garbage, make_gateway
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
        self.instants = self.inexact = self.forced = 0

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> Choice:
        """Choose as the policy does."""
        self._ask(candidates, needed_vms)
        return self.policy.choose(candidates, needed_vms)

    def _ask(self, candidates: Sequence[Candidate], needed_vms: int) -> None:
        best = front(candidates, needed_vms, MOST_HALF_MADE)
        self.instants += 1
        self.inexact += not best.exact
        self.forced += MinimalSets(candidates, needed_vms).count == 1
        self._add(OPTIMUM, _least(best), needed_vms)
        dearest = _dearest_needed(candidates, needed_vms)
        for name, rule in self.rules.items():
            victims = rule(candidates, needed_vms)
            found = score(victims, needed_vms)
            self._add(name, found, needed_vms)
            self.sums[f"{name}:beaten_pct"] += PERCENT * best.beats(found)
            self.sums[f"{name}:dearer_type_pct"] += PERCENT * (_dearest(victims) > dearest)

    def _add(self, name: str, found: Score, needed_vms: int) -> None:
        values = (found.leases, found.excess + needed_vms, found.excess, found.overhead, found.lost)
        for key, value in zip(MEANS, values, strict=True):
            self.sums[f"{name}:{key}"] += value


def means(asked: Sequence[RuleProbe]) -> dict[str, float]:
    """Give the means over all instants of all sites, and how many instants there were."""
    sums, instants = Counter[str](), sum(one.instants for one in asked)
    for one in asked:
        sums.update(one.sums)
    found = {key: value / instants / _unit(key) for key, value in sums.items()}
    inexact, forced = (
        sum(values) for values in zip(*((one.inexact, one.forced) for one in asked), strict=True)
    )
    return found | {"instants": float(instants), "inexact": float(inexact), "forced": float(forced)}


def _unit(key: str) -> int:
    return MS_PER_S if key.endswith("_vm_s") else 1


def _least(best: Front) -> Score:
    return Score(*(best.least(objective) for objective in Objective))


def _dearest(victims: CandidateSet) -> LeaseType:
    return max(lease.lease_type for lease in victims)


def _dearest_needed(candidates: Sequence[Candidate], needed_vms: int) -> LeaseType:
    """The first type at which all leases up to it are enough."""
    return next(
        kind
        for kind in LeaseType
        if vms_of(lease for lease in candidates if lease.lease_type <= kind) >= needed_vms
    )


# Whole runs

THREE = 3
OFTEN = ("leases_twice", "leases_over_three_times", "most_preemptions")


class OftenObserver(LeaseObserver):
    """Counts leases that are preempted more than once, besides all else.

    leases_twice, leases_over_three_times   leases that were preempted more than once, more than three times
    most_preemptions                        preemptions of the lease that was preempted most often
    """

    def __init__(self, gateway: Gateway, hours: int) -> None:
        super().__init__(gateway.sites, gateway.reference_mips, hours * SECONDS_PER_HOUR * 1_000)
        self._twice = self._over_three = self._most = 0

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:
        super()._closed(effect, now_ms)
        times = effect.lease.preemptions
        self._twice += times > 1
        self._over_three += times > THREE
        self._most = max(self._most, times)

    def read(self) -> dict[str, float]:
        """Give all metrics."""
        often = (self._twice, self._over_three, self._most)
        return super().read() | {name: float(value) for name, value in zip(OFTEN, often, strict=True)}


def measure(name: str, replication: int) -> dict[str, float]:
    """Run one configuration, by its name."""
    return run(*configuration_named(name), replication)


def run(plan: Plan, variant: Variant, replication: int) -> dict[str, float]:
    """Run the requests of the period to their end; returns what was measured."""
    keys = as_keys(plan.base, replication)
    made = scenario_from_dict(keys | {"defaults": keys["defaults"] | variant.keys})
    gateway = make_gateway(made, routing(made))
    probes = _probes(gateway, plan) if variant.name == INSTANTS else []
    observer = OftenObserver(gateway, plan.hours)
    with collecting_less_garbage():
        for _ in World(gateway, enumerate(open_streams(made, []), 1), observer).run():
            pass
    return means(probes) if probes else observer.read()


def _probes(gateway: Gateway, plan: Plan) -> list[RuleProbe]:
    """Put a probe before the victim policy of each site, which still decides."""
    probes = []
    for site in gateway.sites.values():
        settings = site.floor.settings
        settings.victims = RuleProbe(settings.victims, plan.rules)
        probes.append(settings.victims)
    return probes
