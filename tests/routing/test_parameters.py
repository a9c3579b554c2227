"""Parameters of a routing policy in its name: what is read, what is refused, what they do."""

from dataclasses import fields
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.configuration.policies import absolute, find_routing_policy
from leasehold.model.errors import InvalidField
from leasehold.routing.policies.pap_rnd import PAPER_SPREAD
from leasehold.routing.policies.pap_rtdp import PapRtdp
from leasehold.routing.policies.price_and_park import ParkingParameters, PriceAndPark
from leasehold.routing.policies.selective import Selective, SelectiveParameters
from leasehold.routing.policies.wait_for_idle import WaitForIdle, WaitingParameters
from leasehold.routing.registry import ROUTING_POLICIES, meanings, parted, policy_maker, usual_values


def made(name: str) -> object:
    return find_routing_policy(name)(Random(1))


def test_what_is_said_is_set_and_the_rest_is_as_usual() -> None:
    policy = made("selective:refused_above=0.22,price=5e-3")
    assert isinstance(policy, Selective)
    assert policy.patience == SelectiveParameters(refused_above=0.22, price=0.005)


def test_without_parameters_all_is_as_usual() -> None:
    policy = made("wait-for-idle")
    assert isinstance(policy, WaitForIdle)
    assert policy.patience == WaitingParameters()


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_any_number_above_0_comes_back_as_it_was(price: float, wait: float) -> None:
    policy = policy_maker(PriceAndPark, f"wait={wait!r},price={price!r}")(Random(1))
    assert isinstance(policy, PriceAndPark)
    assert policy.patience == ParkingParameters(price=price, wait=wait)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("selective:prize=1", "got 'prize', expected one of .*did you mean 'price'"),
        ("price-and-park:refused_above=0.2", "got 'refused_above', expected one of dear_horizon"),
        ("rr:price=1", "got 'price=1', expected none: rr has no parameters"),
        ("selective:price=", "got 'price=', expected price=NUMBER, a number above 0"),
        ("selective:price=low", "got 'price=low', expected price=NUMBER"),
        ("selective:price=-1", "got 'price=-1', expected price=NUMBER"),
        ("selective:price=nan", "got 'price=nan', expected price=NUMBER"),
        ("selective:price=inf", "got 'price=inf', expected price=NUMBER"),
        ("selective:price=1e13", r"got 'price=1e13', expected .* from 1e-12 to 1e\+12"),
        ("selective:price=1e-13", r"got 'price=1e-13', expected .* from 1e-12 to 1e\+12"),
        ("selective:price=1,price=2", "expected price once"),
        ("selective:price=1,", "got '', expected one of"),
        ("selectiv:price=1", "got 'selectiv', expected one of .*did you mean 'selective'"),
        ("selective:", "got 'selective:', expected one of .*did you mean 'selective'"),
    ],
)
def test_what_is_no_parameter_is_refused_in_one_line(name: str, problem: str) -> None:
    with pytest.raises(InvalidField, match=problem):
        find_routing_policy(name)


MINE = """
from dataclasses import dataclass

from leasehold.routing.policy import Dispatch, Information, RoutingPolicy

@dataclass(frozen=True)
class Bounds:
    \"\"\"How much.

    ``most``  part of the slots
              at most
    ``least`` at least
    \"\"\"

    most: float = 0.5
    least: float = 0.1

class Mine(RoutingPolicy):
    name = "mine"
    information = Information.STATIC
    parameters = Bounds

    def __init__(self, random, bounds=Bounds()):
        super().__init__(random)
        self.bounds = bounds

    def route(self, request, view, now_ms):
        return Dispatch(view.sites[0].name)
"""


def test_those_of_a_policy_in_a_file_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    name = absolute("mine.py:Mine:most=0.75", tmp_path)
    assert name == f"{tmp_path}/mine.py:Mine:most=0.75"
    policy = find_routing_policy(name)(Random(1))
    assert (policy.bounds.most, policy.bounds.least) == (0.75, 0.1)  # type: ignore[attr-defined]
    assert usual_values(type(policy)) == {"most": 0.5, "least": 0.1}
    assert meanings(type(policy)) == {"most": "part of the slots at most", "least": "at least"}


def test_a_name_is_parted_only_where_something_is_set() -> None:
    assert parted("selective:price=1,wait=2") == ("selective", "price=1,wait=2")
    assert parted("/a=b/mine.py:Mine") == ("/a=b/mine.py:Mine", "")
    assert parted("selective") == ("selective", "")


def test_the_published_spread_can_be_another() -> None:
    policy = made("pap-rtdp:local_cv=1.2")
    assert isinstance(policy, PapRtdp)
    assert policy.spread.local_cv == 1.2
    assert policy.spread.external_cv == PAPER_SPREAD.external_cv


@pytest.mark.parametrize("name", ROUTING_POLICIES)
def test_each_parameter_says_what_it_is(name: str) -> None:
    kind = ROUTING_POLICIES[name]
    said = meanings(kind)
    assert all(said.values())
    assert list(said) == ([] if kind.parameters is None else [each.name for each in fields(kind.parameters)])
