"""The reference page names every key that a scenario file may have."""

import re
from pathlib import Path

import pytest
from tests.scenario.test_bad_input import TREE

from leasehold.simulation.scenario.parse import load_scenario, packaged_path, scenario_from_dict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "scenario.md"
PROSE = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
NAMED = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", PROSE))))


def keys_of(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set()


@pytest.mark.parametrize(
    "values",
    [TREE, scenario_from_dict(TREE).to_dict(), load_scenario(packaged_path("demo")).to_dict()],
    ids=["written", "complete", "demo"],
)
def test_every_key_is_on_the_page(values: object) -> None:
    names = {"cancelable", "suspendable", "migratable", "non-preemptable", "licence:matlab"}
    assert keys_of(values) - names <= NAMED
