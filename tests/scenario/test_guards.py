"""What a cluster guarantees its guests: read from a file, written back, and put before its victim policy."""

from collections.abc import Callable

import pytest

from leasehold.configuration.keys import Keys
from leasehold.configuration.terms import GUARD
from leasehold.leasing.victims.guard import Guard
from leasehold.model.errors import InputError
from leasehold.simulation.scenario.sites import site_settings
from leasehold.simulation.scenario.spec import Scenario

Load = Callable[[str], Scenario]


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("", "by-value:moml"),
        ("least_run_s = 0\nmost_preemptions = 0\nrepeat_surcharge = 0", "by-value:moml"),
        ("least_run_s = 300", "least-run:by-value:moml"),
        ("most_preemptions = 2", "in-turns:by-value:moml"),
        ("repeat_surcharge = 0.5", "by-value:dearer-again:moml"),
        (
            'victims = "exact-cover"\nleast_run_s = 1.5\nmost_preemptions = 1',
            "least-run:in-turns:by-value:exact-cover",
        ),
        ('victims = "pareto:leases=2,lost=1"\nvalue_order = false', "pareto:leases=2,lost=1"),
    ],
)
def test_guarantees_come_before_the_policy(loaded: Load, small_toml: str, keys: str, name: str) -> None:
    (site,) = site_settings(loaded(small_toml.replace("slots = 8", f"slots = 8\n{keys}")))
    assert site.victims.name == name


@pytest.mark.parametrize("guard", [Guard(), Guard(300_000), Guard(1_500, 2, 0.25, 60_000), Guard(most_preemptions=3)])
def test_what_is_written_is_read_back(guard: Guard) -> None:
    assert GUARD.read(Keys(GUARD.to_dict(guard)), Guard(1, 1, 1.0, 1)) == guard


def test_a_cluster_can_do_without_what_is_usual(loaded: Load, small_toml: str) -> None:
    usual = "[defaults]\nleast_run_s = 300\n\n[[cluster]]"
    (site,) = site_settings(loaded(small_toml.replace("[[cluster]]", usual)))
    assert site.victims.name == "least-run:by-value:moml"
    text = small_toml.replace("[[cluster]]", usual).replace("slots = 8", "slots = 8\nleast_run_s = 0")
    (site,) = site_settings(loaded(text))
    assert site.victims.name == "by-value:moml"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("least_run_s = -1", "least_run_s: got -1"),
        ("most_preemptions = 1.5", "most_preemptions: got 1.5, expected a whole number from 0 to 2147483648"),
        ("repeat_surcharge = -0.5", "repeat_surcharge: got -0.5"),
        ("repeat_surcharge_halves_s = 0", "repeat_surcharge_halves_s: got 0"),
        ('victims = "pareto:exces"', "did you mean 'excess'"),
    ],
)
def test_what_makes_no_sense_is_refused(loaded: Load, small_toml: str, key: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        loaded(small_toml.replace("slots = 8", f"slots = 8\n{key}"))
