"""Measuring what is beyond: every contender in every setting, kept in a folder."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from leasehold.experiments.beyond import logs, world
from leasehold.experiments.beyond.scenario import as_keys
from leasehold.experiments.beyond.settings import (
    Configuration,
    Contender,
    Plan,
    Setting,
    configuration_named,
    plan,
)
from leasehold.experiments.kept import Kept, Runs
from leasehold.experiments.marks import DECIDES, mark
from leasehold.model.errors import InvalidField

QUICK_SEEDS, QUICK_HOURS = 3, 6
FEWEST = 5
"""Replications that an interval takes, of whoever is of less interest."""

_MAKES_RESULTS = (
    *DECIDES,
    "experiments/intergrid/metrics.py",
    "experiments/intergrid/scenario.py",
    "experiments/intergrid/world.py",
    "experiments/beyond/clairvoyant.py",
    "experiments/beyond/logs.py",
    "experiments/beyond/scenario.py",
    "experiments/beyond/stale.py",
    "experiments/beyond/trained.py",
    "experiments/beyond/world.py",
)


def measure(name: str, replication: int, folder: Path | None = None) -> dict[str, float]:
    """Run one configuration, by its name."""
    return world.run(configuration_named(name), replication, folder)


def quick_ones(settings: Sequence[Setting]) -> list[Setting]:
    """Give the settings that show the shape soon: in the others a week goes by before guests come."""
    return [one for one in settings if not one.trained_rate]


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
    most = len(replications(read, setting, seeds))
    return range(1, 1 + min(most, max(FEWEST, ceil(contender.part * most))))


def kept_in(folder: Path | None, read: Plan) -> Kept:
    """Look what was done before."""
    marks = {name: mark(_MAKES_RESULTS, _decides(one)) for name, one in read.configurations.items()}
    return Kept.below(folder, marks)


def _decides(one: Configuration) -> dict[str, object]:
    """Give what decides the results of a configuration, as plain data."""
    setting = one.setting
    log = None if setting.log is None else [repr(setting.log), plan().said["logs"]]
    return as_keys(one, 0) | {
        "setting": [setting.stale_s, setting.overestimate, setting.trained_rate, log],
        "policy": one.contender.gateway["policy"],
    }


def runs_of(read: Plan, settings: Sequence[Setting], seeds: int | None) -> Runs:
    """Say which runs these settings need."""
    return {
        read.name_of(setting, one.name): numbers(read, setting, one, seeds)
        for setting in settings
        for one in read.contenders_in(setting)
    }
