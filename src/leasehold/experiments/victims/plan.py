"""What is compared, on which runs: the file ``victims.toml`` as it states it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from leasehold.experiments import evaluation
from leasehold.experiments.intergrid.plan import FederationRun
from leasehold.experiments.intergrid.plan import plan as published_plan
from leasehold.experiments.victims import rules
from leasehold.experiments.victims.rules import Rule
from leasehold.leasing.victims.candidate import Candidate, CandidateSet
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.errors import InvalidField

INSTANTS, GUARANTEES = "victims-instants", "victims-guarantees"
PARTS = (INSTANTS, GUARANTEES)


@dataclass(frozen=True, slots=True)
class DocumentedRule:
    """A rule of another system: what is documented, where, and the function that implements it."""

    name: str
    documented: str
    where: str
    url: str
    rule: Rule


@dataclass(frozen=True, slots=True)
class Variant(evaluation.Configuration):
    """A way to choose victims in a whole run, or the instants, which have no keys.

    ``what``     in words
    ``keys``     of all clusters in the scenario
    ``against``  the variant that it is compared with, None for the first
    """

    what: str
    keys: Mapping[str, Any]
    against: str | None = None


@dataclass(frozen=True, slots=True)
class VictimsPlan(evaluation.Plan[Variant]):
    """Everything that is compared, for a number of hours; ``base`` is the run without a variant."""

    hours: int
    others: Mapping[str, DocumentedRule]
    rules: Mapping[str, Rule]
    variants: Mapping[str, Variant]
    base: FederationRun

    def names_of(self, parts: Sequence[str]) -> list[str]:
        """Name the configurations of these parts, or of all."""
        wanted = parts or PARTS
        variants = [self.name_of(variant) for variant in self.variants] if GUARANTEES in wanted else []
        return [*([self.name_of(INSTANTS)] if INSTANTS in wanted else []), *variants]

    def name_of(self, what: str) -> str:
        """Name a configuration: a variant, or the instants."""
        return f"{what}-{self.hours}h"


@cache
def plan(hours: int) -> VictimsPlan:
    """Read what is compared, for a number of hours of requests."""
    stated = evaluation.read(__package__, "victims.toml")
    others = {one["name"]: DocumentedRule(**(one | {"rule": getattr(rules, one["rule"])})) for one in stated["other"]}
    ours = {name: _as_rule(victim_policy(name)) for name in stated["ours"]["rules"]}
    variants = {one["name"]: Variant(**one, against=stated["against"].get(one["name"])) for one in stated["variant"]}
    every = (Variant(INSTANTS, "", {}), *variants.values())
    return VictimsPlan(
        stated=stated,
        configurations={f"{one.name}-{hours}h": one for one in every},
        hours=hours,
        others=others,
        rules={name: other.rule for name, other in others.items()} | ours,
        variants=variants,
        base=_base(stated["base"], hours),
    )


def configuration_named(name: str) -> tuple[VictimsPlan, Variant]:
    """Find the plan of a configuration, and what it is there."""
    found = plan(int(name.rpartition("-")[2].removesuffix("h")))
    if name not in found.configurations:
        raise InvalidField("configuration", name, f"one of {', '.join(found.configurations)}")
    return found, found.configurations[name]


def _base(stated: Mapping[str, str], hours: int) -> FederationRun:
    published = published_plan(stated["study"], hours)
    (reading,) = (one for one in published.readings if one.name == stated["reading"])
    return published.configurations[published.name_of(reading, stated["point"], stated["policy"])]


def _as_rule(policy: VictimPolicy) -> Rule:
    def victims(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
        return policy.choose(candidates, needed_vms).victims

    return victims
