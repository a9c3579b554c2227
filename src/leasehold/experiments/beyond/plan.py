"""What is run beyond the published evaluations: settings, contenders, and the wanted results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from leasehold.experiments import evaluation
from leasehold.routing.policy import Information
from leasehold.routing.registry import parted, routing_policy

NAME = "beyond"
STUDY = "003"
VMS, LOCAL_REJECTION, LOCAL_WAIT = "vms_preempted", "local_rejection_pct", "local_wait_s"


@dataclass(frozen=True, slots=True)
class TargetBounds:
    """What the ratio of a metric to that of the reference should be.

    ``spare``  how much more still counts as no more: that two things are equal cannot be shown
    ``goal``   what would be better still
    """

    metric: str
    at_most: float | None = None
    at_least: float | None = None
    spare: float = 0.0
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """The log whose jobs are local: of a machine with ``procs``, or of sites taken up to a ``load``."""

    file: str
    procs: int | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One place where all contenders are run.

    ``role``          ``main``, where the wanted result is asked for; ``control``, ``variant``, ``log``, or
                      ``past`` where other rates came before
    ``reading``       of JPDC 2012
    ``stale_s``       how old what a policy sees of a cluster may be
    ``overestimate``  the largest factor by which run times are overestimated
    ``trained_rate``  how many times as often local requests came while sites learnt what to expect; 0: they
                      begin without knowledge
    """

    name: str
    role: str
    reading: str
    what: str
    replications: int
    gateway: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    stale_s: int = 0
    overestimate: float = 1.0
    trained_rate: float = 0.0
    log: Log | None = None


@dataclass(frozen=True, slots=True)
class Contender:
    """A routing policy with everything that goes with it, as keys of a scenario.

    ``family``  those that differ in their parameters alone
    ``only``    the roles of the settings in which it competes; none is all
    ``part``    of the replications that are enough for it, because its rank is clear or of less interest
    """

    name: str
    title: str
    gateway: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    only: Sequence[str] = ()
    part: float = 1.0

    @property
    def information(self) -> Information:
        """What its routing policy may ask for; not of one that knows the future, which is in no list."""
        name, _ = parted(self.gateway["policy"])
        return routing_policy(name).information

    def is_in(self, setting: Setting) -> bool:
        """Whether it competes there."""
        return not self.only or setting.role in self.only


@dataclass(frozen=True, slots=True)
class ContenderRun(evaluation.Configuration):
    """A contender in a setting, for a number of hours of requests."""

    setting: Setting
    contender: Contender
    hours: int


@dataclass(frozen=True, slots=True)
class BeyondPlan(evaluation.Plan[ContenderRun]):
    """Everything that can be run, for a number of hours of requests.

    ``reference``  the contender to which the others are compared
    ``foresight``  the policy that knows the future
    ``lead``       the contender that the report puts first
    ``published``  the contenders that the publication compares
    """

    hours: int
    replications: int
    reference: str
    foresight: str
    lead: str
    published: tuple[str, ...]
    wanted: tuple[TargetBounds, ...]
    settings: tuple[Setting, ...]
    contenders: tuple[Contender, ...]

    def name_of(self, setting: Setting, contender: str) -> str:
        """Name a configuration."""
        return _name(setting.name, contender, self.hours)

    def contenders_in(self, setting: Setting) -> list[Contender]:
        """Give the contenders of a setting."""
        return [one for one in self.contenders if one.is_in(setting)]

    def wanted_in(self, setting: Setting) -> tuple[TargetBounds, ...]:
        """Give what is wanted in a setting: on logs, and where local requests queue, it differs."""
        instead: dict[str, TargetBounds] = {}
        if setting.log is not None:
            instead[VMS] = TargetBounds(VMS, at_most=self.stated["logs"]["wanted_at_most"])
        if setting.defaults.get("local_queue") == "queue":
            default = next(one for one in self.wanted if one.metric == LOCAL_REJECTION)
            instead[LOCAL_REJECTION] = replace(default, metric=LOCAL_WAIT)
        return tuple(instead.get(one.metric, one) for one in self.wanted)

    def information(self, contender: Contender) -> str:
        """Name what a contender has to know."""
        is_foreseen = contender.gateway["policy"] == self.foresight
        return "the future" if is_foreseen else contender.information.label

    def title_of(self, name: str) -> str:
        """Give the title of a contender."""
        return next(one.title for one in self.contenders if one.name == name)


@cache
def plan(hours: int | None = None) -> BeyondPlan:
    """Read the plan, for a number of hours of requests; None: as the file states."""
    stated = evaluation.read(__package__, "beyond.toml")
    hours = stated["hours"] if hours is None else hours
    settings = tuple(_setting(entry, stated) for entry in stated["setting"])
    contenders = tuple(Contender(**entry) for entry in stated["contender"])
    made = [
        ContenderRun(_name(setting.name, contender.name, hours), setting, contender, hours)
        for setting in settings
        for contender in contenders
        if contender.is_in(setting)
    ]
    return BeyondPlan(
        stated=stated,
        configurations={one.name: one for one in made},
        hours=hours,
        replications=stated["replications"],
        reference=stated["reference"],
        foresight=stated["foresight"],
        lead=stated["lead"],
        published=tuple(stated["published"]),
        wanted=tuple(TargetBounds(**entry) for entry in stated["wanted"]),
        settings=settings,
        contenders=contenders,
    )


def _setting(entry: Mapping[str, Any], stated: Mapping[str, Any]) -> Setting:
    """Make a setting; what all logs have in common is stated once."""
    default: dict[str, Any] = {"replications": stated["replications"]}
    if "log" not in entry:
        return Setting(**default | dict(entry))
    common = {key: stated["logs"][key] | entry.get(key, {}) for key in ("gateway", "defaults")}
    return Setting(**default | dict(entry) | common | {"log": Log(**entry["log"])})


def configuration_named(name: str) -> ContenderRun:
    """Find a configuration of any plan by its name."""
    hours = name.rpartition("-")[2].removesuffix("h")
    return plan(int(hours)).configurations[name]


def settings_named(read: BeyondPlan, parts: Sequence[str]) -> list[Setting]:
    """Give the settings with these names, ``beyond-r2`` for one; none named is all of them."""
    return [one for one in read.settings if not parts or part_name(one) in parts]


def part_name(setting: Setting) -> str:
    """Name a setting on the command line."""
    return f"{NAME}-{setting.name.lower()}"


def _name(setting: str, contender: str, hours: int) -> str:
    return f"{NAME}-{setting.lower()}-{contender}-{hours}h"
