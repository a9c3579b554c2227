"""What is compared, on which runs: the file ``victims.toml`` as it says it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from leasehold.experiments.intergrid.settings import Configuration
from leasehold.experiments.intergrid.settings import plan as published_plan
from leasehold.experiments.interpretation import Interpretation
from leasehold.experiments.victims import others
from leasehold.experiments.victims.others import OthersRule
from leasehold.leasing.victims.candidate import Candidate, CandidateSet
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.errors import InvalidField

INSTANTS, GUARANTEES = "victims-instants", "victims-guarantees"
PARTS = (INSTANTS, GUARANTEES)


@dataclass(frozen=True, slots=True)
class Other:
    """A rule of somebody else: what is documented, where, and the function that does it."""

    name: str
    documented: str
    where: str
    url: str
    rule: OthersRule


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to choose victims in a whole run; ``against`` is what it is compared with, None for the first."""

    name: str
    what: str
    keys: Mapping[str, Any]
    against: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is compared, for so many hours of requests."""

    hours: int
    ours: Mapping[str, VictimPolicy]
    others: Mapping[str, Other]
    variants: Mapping[str, Variant]
    interpretations: Sequence[Interpretation]
    base: Configuration

    @property
    def rules(self) -> dict[str, OthersRule]:
        """Every rule that is asked at each instant, those of others first, each as a function."""
        ours = {name: _victims_of(policy) for name, policy in self.ours.items()}
        return {name: other.rule for name, other in self.others.items()} | ours

    def names_of(self, parts: Sequence[str]) -> list[str]:
        """Name the configurations of these parts, or of all."""
        wanted = parts or PARTS
        variants = [self.name_of(variant) for variant in self.variants] if GUARANTEES in wanted else []
        return [*([self.name_of(INSTANTS)] if INSTANTS in wanted else []), *variants]

    def name_of(self, what: str) -> str:
        """Name a configuration: a variant, or the instants."""
        return f"{what}-{self.hours}h"


@cache
def plan(hours: int) -> Plan:
    """Read what is compared, for so many hours of requests."""
    said = tomllib.loads((files(__package__) / "victims.toml").read_text(encoding="utf-8"))
    rules = {one["rule"]: getattr(others, one["rule"]) for one in said["other"]}
    return Plan(
        hours=hours,
        ours={name: victim_policy(name) for name in said["ours"]["rules"]},
        others={one["name"]: Other(**(one | {"rule": rules[one["rule"]]})) for one in said["other"]},
        variants={
            one["name"]: Variant(**one, against=said["against"].get(one["name"])) for one in said["variant"]
        },
        interpretations=[Interpretation(**one) for one in said["interpretation"]],
        base=_base(said["base"], hours),
    )


def configuration_named(name: str) -> tuple[Plan, str]:
    """Find the plan of a configuration, and what it is there: a variant, or the instants."""
    what, _, hours = name.rpartition("-")
    found = plan(int(hours.removesuffix("h")))
    if what != INSTANTS and what not in found.variants:
        raise InvalidField("configuration", name, f"one of {', '.join(found.names_of(PARTS))}")
    return found, what


def _base(said: Mapping[str, str], hours: int) -> Configuration:
    published = published_plan(said["study"], hours)
    (reading,) = (one for one in published.readings if one.name == said["reading"])
    return published.configurations[published.name_of(reading, said["point"], said["policy"])]


def _victims_of(policy: VictimPolicy) -> OthersRule:
    def victims(candidates: Sequence[Candidate], needed_vms: int) -> CandidateSet:
        return policy.choose(candidates, needed_vms).victims

    return victims
