"""Measuring what is beyond: every contender in every setting, kept in a folder."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from leasehold.experiments.beyond import logs, trained, world
from leasehold.experiments.beyond.scenario import as_keys
from leasehold.experiments.beyond.settings import (
    Configuration,
    Contender,
    Plan,
    Setting,
    configuration_named,
)
from leasehold.experiments.campaign import Task, tasks
from leasehold.experiments.kept import Kept, Results
from leasehold.experiments.marks import DECIDES, mark
from leasehold.model.errors import InvalidField

QUICK_SEEDS, QUICK_HOURS = 5, 6

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/scenario.py",
    "experiments/intergrid/world.py",
    "experiments/beyond/clairvoyant.py",
    "experiments/beyond/logs.py",
    "experiments/beyond/scenario.py",
    "experiments/beyond/stale.py",
    "experiments/beyond/world.py",
)
_TRAINS = "experiments/beyond/trained.py"


def measure(name: str, replication: int, folder: Path | None = None) -> dict[str, float]:
    """Run one configuration, by its name."""
    configuration = configuration_named(name)
    if trained.is_trained(configuration):
        return trained.run(configuration, replication)
    return world.run(configuration, replication, folder)


def possible(settings: Sequence[Setting], folder: Path | None, *, asked: bool) -> list[Setting]:
    """Give the settings whose log is there; raises InvalidField for one that was asked for by name."""
    found = [one for one in settings if one.log is None or logs.is_there(one.log, folder)]
    if asked and len(found) < len(settings):
        missing = next(one for one in settings if one not in found)
        assert missing.log is not None
        raise InvalidField("--logs", str(folder or ""), f"a folder with {missing.log.file}")
    return found


def replications(read: Plan, setting: Setting, seeds: int | None) -> range:
    """Number the replications of a setting: as the file says, or in proportion where ``seeds`` says other."""
    count = setting.replications if seeds is None else -(-seeds * setting.replications // read.replications)
    return range(1, 1 + max(2, count))


def numbers(read: Plan, setting: Setting, contender: Contender, seeds: int | None) -> range:
    """Number the replications of a contender in a setting: all of them, or the first."""
    return range(1, 1 + max(2, ceil(contender.part * len(replications(read, setting, seeds)))))


def kept_in(folder: Path | None, read: Plan) -> Kept:
    """Look what was done before."""
    marks = {name: mark(_made_by(one), _decides(one, read)) for name, one in read.configurations.items()}
    return Kept.below(folder, marks)


def _made_by(one: Configuration) -> tuple[str, ...]:
    """Name the code that makes the results of a configuration."""
    return (*_MAKES_RESULTS, _TRAINS) if trained.is_trained(one) else _MAKES_RESULTS


def _decides(one: Configuration, read: Plan) -> dict[str, object]:
    """Give what decides the results of a configuration, as plain data."""
    setting = one.setting
    log = None if setting.log is None else [repr(setting.log), read.said["logs"]]
    return as_keys(one, 0) | {
        "setting": [setting.stale_s, setting.overestimate, log],
        "policy": [one.contender.gateway["policy"], dict(one.contender.parameters)],
        **({"trained": setting.trained_rate} if trained.is_trained(one) else {}),
    }


def todo(read: Plan, settings: Sequence[Setting], seeds: int | None, kept: Kept) -> list[Task]:
    """List what is still to be measured."""
    return [
        task
        for setting in settings
        for one in read.contenders_in(setting)
        for task in tasks([read.name_of(setting, one.name)], numbers(read, setting, one, seeds), kept)
    ]


def results(read: Plan, settings: Sequence[Setting], seeds: int | None, kept: Kept) -> Results:
    """Put together what was measured."""
    return {
        name: kept.by_metric(name, numbers(read, setting, one, seeds))
        for setting in settings
        for one in read.contenders_in(setting)
        for name in [read.name_of(setting, one.name)]
    }
