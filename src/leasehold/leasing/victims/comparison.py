"""Whom would each policy preempt, and which sets does no other one beat? For people who choose a policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.leasing.victims.candidate import Candidate, CandidateSet, ids_of
from leasehold.leasing.victims.front import Front, front
from leasehold.leasing.victims.objectives import Score, score
from leasehold.leasing.victims.policy import VictimPolicy


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate set: what it costs, which policies choose it, and whether another set beats it."""

    victims: CandidateSet
    score: Score
    chosen_by: tuple[str, ...]
    is_beaten: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sets that no other one beats, and whatever else some policy chooses, by their scores.

    ``exact``  whether every set that no other beats is among them, or equal to one that is
    """

    options: tuple[Option, ...]
    exact: bool


def compare(candidates: Sequence[Candidate], needed_vms: int, policies: Mapping[str, VictimPolicy]) -> Comparison:
    """Ask these policies, and put their answers among the unbeaten sets; raises as `front` does."""
    best = front(candidates, needed_vms)
    chosen_by: dict[CandidateSet, list[str]] = {one: [] for one in best.sets}
    for name, policy in policies.items():
        chosen_by.setdefault(policy.choose(candidates, needed_vms).victims, []).append(name)
    options = [_option(victims, names, needed_vms, best) for victims, names in chosen_by.items()]
    ranked = sorted(options, key=lambda one: (one.score, ids_of(one.victims)))
    return Comparison(tuple(ranked), best.exact)


def _option(victims: CandidateSet, names: Sequence[str], needed_vms: int, best: Front) -> Option:
    found = score(victims, needed_vms)
    return Option(victims, found, tuple(names), is_beaten=best.beats(found))
