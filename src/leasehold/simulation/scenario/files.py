"""Scenario files: read with the line of whatever is wrong, and written in one normal form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.configuration import toml
from leasehold.configuration.toml import TomlFile, read_toml
from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.overrides import overridden
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario


def load_scenario(path: Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file; ``overrides`` are set over its keys (see `overrides`).

    Raises InputError with file and line, or InvalidField for an override.
    """
    file = read_toml(path)
    if not overrides:
        return _parsed(file)
    try:
        return scenario_from_dict(overridden(file.values, overrides), path.parent)
    except InvalidField:
        _parsed(file)  # if the file is wrong by itself, that is what to say
        raise


def _parsed(file: TomlFile) -> Scenario:
    with file.naming_lines():
        return scenario_from_dict(file.values, file.path.parent)


def to_toml(scenario: Scenario) -> str:
    """Write a scenario as a file, complete: `load_scenario` reads the same one from it."""
    return toml.to_toml(scenario.to_dict())
