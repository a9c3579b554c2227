"""What is put before any victim policy: the order of the lease types, and what a site guarantees its guests.

Tiers spare the leases of a later tier while the earlier ones are enough: `ByValue` by lease type, `LeastRun` by how
long a lease has worked, `PreemptionLimit` by how often it was preempted. `RepreemptionSurcharge` makes leases that
were preempted before cost more. `Guard` is what a site has configured of these.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, VictimChoice, in_order, vms_of
from leasehold.leasing.victims.minimal_sets import MinimalSets
from leasehold.leasing.victims.mov import least_cost_vm_ms
from leasehold.leasing.victims.policy import VictimPolicy, check_candidates
from leasehold.leasing.victims.pool import CandidatePool, Listed, has_run


class TieredPolicy(VictimPolicy):
    """Which candidate set touches the earliest tiers only, and is good by another policy?

    Rule: a lease is touched only if all leases of earlier tiers together are not enough.

    The tiers before the last one needed are counted as given; the other policy chooses within that tier for
    the rest of the need; what this frees too many is given back to the tiers before it in the same way, so
    that no lease is preempted in vain. Whatever all candidates could cover is covered.
    """

    def __init__(self, policy: VictimPolicy, before: str) -> None:
        self.policy = policy
        self.name = f"{before}:{policy.name}"

    @abstractmethod
    def tier(self, lease: Candidate) -> int:
        """Say in which tier a lease is; lower ones go first."""

    def tiers(self, pool: CandidatePool) -> Sequence[CandidatePool]:
        """Split the candidates into tiers, the first one first; no tier is empty."""
        of_tier: dict[int, list[Candidate]] = {}
        for lease in pool.candidates():
            of_tier.setdefault(self.tier(lease), []).append(lease)
        return [Listed(leases) for _, leases in sorted(of_tier.items())]

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose by tier first, by the other policy second."""
        check_candidates(candidates, needed_vms)
        return self.choose_from(Listed(candidates), needed_vms)

    def choose_from(self, pool: CandidatePool, needed_vms: int) -> VictimChoice:
        """Choose by tier first, by the other policy second."""
        return self._choose(self.tiers(pool), needed_vms)

    def _choose(self, tiers: Sequence[CandidatePool], needed_vms: int) -> VictimChoice:
        last, below_vms = 0, 0
        while below_vms + tiers[last].vms < needed_vms and last + 1 < len(tiers):
            below_vms += tiers[last].vms
            last += 1
        below = tiers[:last]
        top = self.policy.choose_from(tiers[last], needed_vms - below_vms)
        fill = self._fill(below, top.victims, needed_vms)
        victims = _joined(top.victims, fill)
        exact = top.exact and (fill is None or fill.exact)
        return VictimChoice(
            victims=victims,
            runner_up=self._runner_up(top, fill, below, needed_vms),
            exact=exact,
            bound_vm_ms=None if exact else _least_cost_vm_ms(tiers, needed_vms),
            considered=top.considered + (fill.considered if fill else 0),
            rule=self.name,
            despite=self.broken_for(victims) | top.despite | (fill.despite if fill else frozenset()),
        )

    def broken_for(self, victims: CandidateSet) -> frozenset[int]:  # noqa: ARG002 - for guarantees
        """Return the victims whose tier was a promise; empty if tiers only define an order."""
        return frozenset()

    def _fill(self, below: Sequence[CandidatePool], taken: CandidateSet, needed_vms: int) -> VictimChoice | None:
        """Choose from the earlier tiers what ``taken`` leaves open, if it does."""
        rest = needed_vms - vms_of(taken)
        return self._choose(below, rest) if rest > 0 else None

    def _runner_up(
        self, top: VictimChoice, fill: VictimChoice | None, below: Sequence[CandidatePool], needed_vms: int
    ) -> CandidateSet | None:
        """The next choice within the last tier; without one, the next below it."""
        if top.runner_up:
            return _joined(top.runner_up, self._fill(below, top.runner_up, needed_vms))
        if fill and fill.runner_up:
            return in_order(top.victims + fill.runner_up)
        return None


def _least_cost_vm_ms(tiers: Sequence[CandidatePool], needed_vms: int) -> int:
    """What the cheapest set of all tiers is charged."""
    candidates = [lease for tier in tiers for lease in tier.cheapest(needed_vms)]
    return least_cost_vm_ms(MinimalSets(candidates, needed_vms))


class GuaranteePolicy(TieredPolicy):
    """Which candidate set breaks no promise, and is good by another policy?

    Rule: leases of the first tier go before all others; to be in a later one is a promise of the site, which
        is broken only where no other candidate is left.
    """

    def broken_for(self, victims: CandidateSet) -> frozenset[int]:
        """Name the victims that are not of the first tier."""
        return frozenset(lease.lease_id for lease in victims if self.tier(lease) > 0)


def _joined(taken: CandidateSet, fill: VictimChoice | None) -> CandidateSet:
    return in_order(taken + fill.victims) if fill else in_order(taken)


class ByValue(TieredPolicy):
    """Which candidate set spares the more valuable leases, and is good by another policy?

    Rule: a lease is touched only if all leases of less valuable types together are not enough (Cancelable,
        then Suspendable, then Migratable).
    Source: Salehi, Javadi and Buyya, JPDC 2012, section 4.2 (the local scheduler).

    The types below the last one needed are counted as given; the other policy chooses within that type for
    the rest of the need; what this frees too many is given back to the types below in the same way, so that
    no lease is preempted in vain.
    """

    def __init__(self, policy: VictimPolicy) -> None:
        super().__init__(policy, "by-value")

    def tier(self, lease: Candidate) -> int:
        """Give the value of its type."""
        return lease.lease_type

    def tiers(self, pool: CandidatePool) -> Sequence[CandidatePool]:
        """Split the candidates by type."""
        return pool.by_type()


def by_value(policy: VictimPolicy) -> VictimPolicy:
    """Put the order of the lease types before this policy."""
    return ByValue(policy)


class LeastRun(GuaranteePolicy):
    """Which candidate set spares leases that have only just begun, and is good by another policy?

    Rule: a lease that has been working for less than the guaranteed time, since it started or last came
        back, is touched only if all others together are not enough. The time is a fixed one, or so many times
        as long as it took to come back, whichever is longer.

    A guest that is loaded from its saved memory and at once saved again has cost its site twice and got
    nothing done. Unlike an exemption, the guarantee never keeps the owner's users waiting: where no other
    candidate is left, it gives way.
    """

    def __init__(self, policy: VictimPolicy, least_run_ms: int, least_run_resumes: int = 0) -> None:
        super().__init__(policy, "least-run")
        self.least_run_ms = least_run_ms
        self.least_run_resumes = least_run_resumes

    def tier(self, lease: Candidate) -> int:
        """Give 1 to whom the guarantee protects."""
        return int(not has_run(lease, self.least_run_ms, self.least_run_resumes))

    def tiers(self, pool: CandidatePool) -> Sequence[CandidatePool]:
        """Split the candidates by whether the guarantee protects them."""
        return pool.by_run(self.least_run_ms, self.least_run_resumes)


class PreemptionLimit(GuaranteePolicy):
    """Which candidate set does not always hit the same leases, and is good by another policy?

    Rule: a lease that has been preempted as often as the bound says, or more often, is touched only if all
        leases that have been preempted less often are not enough.

    Below the bound the other policy is free. At the bound and above, leases preempted least often go first,
    so that a cheap victim that comes back is not taken again and again while others could be.
    """

    def __init__(self, policy: VictimPolicy, most_preemptions: int) -> None:
        super().__init__(policy, "in-turns")
        self.most_preemptions = most_preemptions

    def tier(self, lease: Candidate) -> int:
        """Give 0 below the bound, and one more for each preemption from there on."""
        return max(0, lease.preemptions + 1 - self.most_preemptions)


@dataclass(frozen=True, slots=True)
class Surcharge:
    """How much dearer a lease is for each preemption that it has behind it.

    ``share``     of its cost, for each of them, at the moment when it has come back
    ``halves_ms`` after so much work since then, it is half of that
    """

    share: float
    halves_ms: int

    def on(self, lease: Candidate) -> int:
        """Give what is added to the cost of this lease, in VM-milliseconds."""
        recent = self.halves_ms / (self.halves_ms + lease.ran_ms)
        return round(lease.cost_vm_ms * self.share * lease.preemptions * recent)


class RepreemptionSurcharge(VictimPolicy):
    """Which candidate set does another policy choose if leases preempted before cost more?

    Rule: the other policy's, at costs that are higher the more often a lease was preempted, and the less it
        has worked since it came back.

    What is charged and written down stays the plain cost.
    """

    def __init__(self, policy: VictimPolicy, surcharge: Surcharge) -> None:
        self.policy = policy
        self.surcharge = surcharge
        self.name = f"dearer-again:{policy.name}"

    def choose(self, candidates: Sequence[Candidate], needed_vms: int) -> VictimChoice:
        """Choose at the higher costs."""
        plain = {lease.lease_id: lease for lease in candidates}
        choice = self.policy.choose([self._dearer(lease) for lease in candidates], needed_vms)
        return VictimChoice(
            victims=_at_plain_cost(choice.victims, plain),
            runner_up=_at_plain_cost(choice.runner_up, plain) if choice.runner_up else None,
            exact=choice.exact,
            bound_vm_ms=None if choice.exact else least_cost_vm_ms(MinimalSets(candidates, needed_vms)),
            considered=choice.considered,
            rule=self.name,
            despite=choice.despite,
        )

    def _dearer(self, lease: Candidate) -> Candidate:
        """Leave a cost that makes no sense as it is: the policy refuses it."""
        extra = self.surcharge.on(lease) if lease.preemptions else 0
        return replace(lease, cost_vm_ms=lease.cost_vm_ms + extra) if extra else lease


def _at_plain_cost(leases: CandidateSet, plain: dict[int, Candidate]) -> CandidateSet:
    return in_order(plain[lease.lease_id] for lease in leases)


DEFAULT_HALVES_MS = 600_000


@dataclass(frozen=True, slots=True)
class Guard:
    """The guarantees of a site; whatever is 0 is not guaranteed, and nothing changes.

    ``least_run_ms``      how long a guest works after it started or came back before it may be preempted
    ``most_preemptions``  how often one guest is preempted while others could be
    ``surcharge``         how much dearer each earlier preemption makes it, as a share of its cost
    ``halves_ms``         after so much work since it came back, the surcharge is half
    ``least_run_resumes`` it works at least so many times as long as it took to come back
    """

    least_run_ms: int = 0
    most_preemptions: int = 0
    surcharge: float = 0.0
    halves_ms: int = DEFAULT_HALVES_MS
    least_run_resumes: int = 0

    def around(self, policy: VictimPolicy) -> VictimPolicy:
        """Put the guarantees before a policy, the order of the lease types being part of it.

        The guaranteed time comes before the turns, and both before anything that the policy weighs.
        """
        guarded = policy
        if self.most_preemptions:
            guarded = PreemptionLimit(guarded, self.most_preemptions)
        if self.least_run_ms or self.least_run_resumes:
            guarded = LeastRun(guarded, self.least_run_ms, self.least_run_resumes)
        return guarded

    def within(self, policy: VictimPolicy) -> VictimPolicy:
        """Wrap a policy so that leases preempted before cost more; unchanged without a surcharge."""
        return RepreemptionSurcharge(policy, Surcharge(self.surcharge, self.halves_ms)) if self.surcharge else policy
