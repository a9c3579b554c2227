"""A policy in a file of the user's is named by file and name."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from leasehold.configuration.policies import find_routing_policy, find_victim_policy
from leasehold.leasing.victims.candidate import Candidate
from leasehold.model.errors import InputError, InvalidField
from leasehold.model.request import LeaseType
from leasehold.simulation.scenario.parse import load_scenario
from leasehold.simulation.scenario.sites import routing, site_settings

ROUTING = '''
from leasehold.routing.policy import Dispatch, Information, RoutingPolicy

class LastSite(RoutingPolicy):
    """Which site comes last?"""

    name = "last-site"
    information = Information.STATIC

    def route(self, request, view, now_ms):
        return Dispatch(view.sites[-1].name)
'''

VICTIMS = '''
from leasehold.leasing.victims.mov import Mov

def widest_first(candidates, needed_vms):
    """Who holds most?"""
    return sorted(candidates, key=lambda lease: -lease.vms)

class MyMov(Mov):
    name = "my-mov"

ready_made = MyMov()
number = 3
'''


@pytest.fixture
def mine(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_routing_policy_is_found(mine: Callable[[str], str]) -> None:
    assert find_routing_policy(f"{mine(ROUTING)}:LastSite")(Random(1)).name == "last-site"


@pytest.mark.parametrize(
    ("name", "called"),
    [("widest_first", "widest-first"), ("MyMov", "my-mov"), ("ready_made", "my-mov")],
)
def test_a_victim_policy_is_a_function_a_class_or_an_object(mine: Callable[[str], str], name: str, called: str) -> None:
    policy = find_victim_policy(f"{mine(VICTIMS)}:{name}")
    candidates = [Candidate(n, LeaseType.CANCELABLE, vms, 0, 0) for n, vms in ((1, 2), (2, 6), (3, 1))]
    assert policy.name == called
    assert policy.choose(candidates, 1).victims


def test_its_path_counts_from_the_scenario(
    mine: Callable[[str], str],
    written: Callable[[str], Path],
    small_toml: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine(ROUTING + VICTIMS)
    text = small_toml.replace('"rr"', '"mine.py:LastSite"')
    path = written(text.replace("slots = 8", 'slots = 8\nvictims = "mine.py:widest_first"\nvalue_order = false'))
    monkeypatch.chdir("/")
    scenario = load_scenario(path)
    assert routing(scenario).policy.name == "last-site"
    assert site_settings(scenario)[0].victims.name == "widest-first"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (ROUTING, "FirstSite", r"mine\.py: has no 'FirstSite'; it has .*LastSite"),
        (ROUTING, "RoutingPolicyy", r"has no"),
        ("x = 1 +\n", "x", r"mine\.py:1: SyntaxError"),
        ("\n\nraise RuntimeError('no\\nway')\n", "x", r"mine\.py:3: RuntimeError: no"),
        ("import nothing_of_that_name\n", "x", r"mine\.py:1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "x", r"mine\.py:1: SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(mine: Callable[[str], str], text: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        find_routing_policy(f"{mine(text)}:{name}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match="no such file"):
        find_victim_policy("nowhere.py:x")


def test_what_is_no_policy_is_refused(mine: Callable[[str], str]) -> None:
    with pytest.raises(InvalidField, match="subclass of RoutingPolicy"):
        find_routing_policy(f"{mine(VICTIMS)}:widest_first")
    with pytest.raises(InvalidField, match="VictimPolicy"):
        find_victim_policy(f"{mine(VICTIMS)}:number")
