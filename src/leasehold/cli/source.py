"""What did the user name: a scenario that comes with Leasehold, a scenario file, a log, or an earlier run?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.configuration.policies import absolute, find_routing_policy, find_victim_policy
from leasehold.leasing.backfill import reservation_depth
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.tables import MANIFEST
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log
from leasehold.simulation.scenario.parse import (
    format_of,
    load_scenario,
    overridden,
    packaged_names,
    packaged_path,
    parse_assignments,
    scenario_from_dict,
)
from leasehold.simulation.scenario.spec import Scenario


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options of a command say about a scenario, None where they say nothing."""

    local_policy: str | None = None
    routing: str | None = None
    victims: str | None = None
    load: float | None = None
    seed: int | None = None
    horizon_s: float | None = None
    assignments: list[str] = field(default_factory=list)

    def overrides(self) -> dict[str, Any]:
        """Turn them into keys of a scenario; names are checked here, so that an error names the option."""
        found: dict[str, Any] = {}
        if self.local_policy is not None:
            reservation_depth(self.local_policy)
            found |= _for_all_clusters("local_policy", self.local_policy)
        if self.victims is not None:
            victims = absolute(self.victims, Path())
            find_victim_policy(victims)
            found |= _for_all_clusters("victims", victims)
        if self.routing is not None:
            found["gateway.policy"] = absolute(self.routing, Path())
            find_routing_policy(found["gateway.policy"])
        others = {"stream.*.load": self.load, "seed": self.seed, "horizon_s": self.horizon_s}
        found |= {key: value for key, value in others.items() if value is not None}
        return found | parse_assignments(self.assignments)


def _for_all_clusters(key: str, value: str) -> dict[str, str]:
    return {f"defaults.{key}": value, f"cluster.*.{key}": value}


def scenario_of(source: str, log_options: LogOptions, overrides: Mapping[str, Any]) -> Scenario:
    """Make the scenario that the user named.

    Raises InputError, InvalidField or UnknownName.
    """
    path = Path(source)
    if path.is_file() and format_of(path) is not None:
        return scenario_for_log(path, log_options, overrides)
    if log_options != LogOptions():
        expected = "a workload log: --procs, --site, --cluster-by and --guests are about logs"
        raise InvalidField("SOURCE", source, expected)
    if source in packaged_names() and not path.is_file() and not (path / MANIFEST).is_file():
        return load_scenario(packaged_path(source), overrides)
    if path.is_dir():
        return _scenario_of_run(path, overrides)
    if path.exists() and path.suffix != ".toml":
        raise InputError(path, None, "is neither a scenario (.toml) nor a log (.swf or .gwf, perhaps .gz)")
    if not path.exists():
        known = ", ".join(packaged_names())
        raise InvalidField("SOURCE", source, f"a scenario file, a workload log, a run folder, or one of {known}")
    return load_scenario(path, overrides)


def _scenario_of_run(folder: Path, overrides: Mapping[str, Any]) -> Scenario:
    from leasehold.analysis.run import load

    values = load(folder).manifest.get("scenario")
    if not isinstance(values, dict):
        raise InputError(folder, None, "its manifest holds no scenario")
    return scenario_from_dict(overridden(values, overrides))
