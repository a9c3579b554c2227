"""Policies of the user's own: from a function, by name, from another package; and the greedy baseline."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from leasehold.configuration import look_for_installed_policies
from leasehold.leasing.victims.candidate import Candidate, ids_of
from leasehold.leasing.victims.from_function import Preference, from_function
from leasehold.leasing.victims.mov import Mov
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import (
    ENTRY_POINT_GROUP,
    VICTIM_POLICIES,
    describe,
    victim_policy,
    victim_policy_names,
)
from leasehold.leasing.victims.youngest_first import YOUNGEST_FIRST
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LeaseType

LEASES = [
    Candidate(1, LeaseType.CANCELABLE, 4, 0, ends_ms=100),
    Candidate(2, LeaseType.SUSPENDABLE, 1, 10, ends_ms=900),
    Candidate(3, LeaseType.SUSPENDABLE, 3, 30, ends_ms=500),
]


@from_function
def last_to_end(candidates: Sequence[Candidate], needed_vms: int) -> Iterable[Candidate]:
    """Who would hold the room longest?

    Rule: the lease that ends last goes first.
    """
    assert needed_vms > 0
    return sorted(candidates, key=lambda lease: lease.ends_ms, reverse=True)


def answering(*lease_ids: int) -> Preference:
    return lambda _, __: [lease for wanted in lease_ids for lease in LEASES if lease.lease_id == wanted]


class TestFromFunction:
    def test_preempts_in_the_order_given_until_there_is_room(self) -> None:
        assert ids_of(last_to_end.choose(LEASES, 4).victims) == (2, 3)

    def test_spares_what_later_turns_out_superfluous(self) -> None:
        assert ids_of(last_to_end.choose(LEASES, 3).victims) == (3,)

    def test_spares_the_least_preferred_first(self) -> None:
        wide, narrow, last = (Candidate(n, LeaseType.CANCELABLE, vms, 0, 0) for n, vms in enumerate((2, 1, 3)))
        in_order_shown = from_function(lambda candidates, _: candidates, "as-shown")
        assert in_order_shown.choose([wide, narrow, last], 4).victims == (wide, last)

    def test_asks_for_no_more_than_it_needs(self) -> None:
        def endless(candidates: Sequence[Candidate], needed_vms: int) -> Iterable[Candidate]:
            assert needed_vms == 4
            yield candidates[0]
            pytest.fail("there was room already")

        assert ids_of(from_function(endless).choose(LEASES, 4).victims) == (1,)

    def test_shows_the_candidates_by_number(self) -> None:
        as_shown = from_function(lambda candidates, _: candidates, "as-shown")
        assert ids_of(as_shown.choose(LEASES[::-1], 1).victims) == (1,)

    def test_promises_no_optimum_and_says_how_cheap_it_could_be(self) -> None:
        choice = last_to_end.choose(LEASES, 4)
        assert (choice.cost_vm_ms, choice.bound_vm_ms, choice.exact) == (40, 0, False)
        assert choice.bound_vm_ms == Mov().choose(LEASES, 4).cost_vm_ms

    def test_is_called_what_the_function_is_called(self) -> None:
        assert last_to_end.name == last_to_end.choose(LEASES, 1).rule == "last-to-end"
        assert from_function(answering(1), "mine").name == "mine"

    @pytest.mark.parametrize(
        ("preference", "problem"),
        [
            (answering(2, 3), "hold 5 VMs together"),
            (answering(), "hold 5 VMs together"),
            (answering(2, 2, 1), "each candidate once"),
            (lambda _, __: [Candidate(9, LeaseType.CANCELABLE, 9, 0, 0)], "candidates that it was given"),
        ],
    )
    def test_refuses_a_function_that_does_not_make_room(self, preference: Preference, problem: str) -> None:
        with pytest.raises(InvalidField, match=f"result of victim policy bad: .*{problem}"):
            from_function(preference, "bad").choose(LEASES, 5)


def test_youngest_first_takes_the_highest_numbers() -> None:
    assert ids_of(YOUNGEST_FIRST.choose(LEASES, 4).victims) == (2, 3)
    assert ids_of(YOUNGEST_FIRST.choose(LEASES, 3).victims) == (3,)


class TestRegistry:
    @pytest.mark.parametrize("name", VICTIM_POLICIES)
    def test_a_policy_is_listed_under_its_own_name_and_describes_itself(self, name: str) -> None:
        assert victim_policy(name).name == name
        assert describe(name).question.endswith("?")
        assert describe(name).rule

    def test_sources_are_named(self) -> None:
        assert "section III, Algorithm 1" in describe("moml").source
        assert "JPDC 2012, section 4.2" in describe("by-value:moml").source

    def test_any_name_may_have_by_value_before_it(self) -> None:
        assert victim_policy("by-value:mov").name == "by-value:mov"

    @pytest.mark.parametrize("name", ["mvo", "by-value:mvo"])
    def test_a_wrong_name_gets_the_nearest_one(self, name: str) -> None:
        with pytest.raises(UnknownName, match="did you mean 'mov'"):
            victim_policy(name)


class TestEntryPoints:
    """A package of somebody else's, installed as far as Python can tell."""

    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        (tmp_path / "neighbours_victims.py").write_text(
            "from leasehold.leasing.victims.mov import Mov\n"
            "class Renamed(Mov):\n"
            "    name = 'as-class'\n"
            "ready = Renamed()\n"
            "def widest_first(candidates, needed_vms):\n"
            "    return sorted(candidates, key=lambda lease: -lease.vms)\n"
            "number = 7\n"
        )
        dist_info = tmp_path / "neighbours-1.0.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: neighbours\nVersion: 1.0\n")
        offers = {
            "as-class": "Renamed",
            "as-object": "ready",
            "as-function": "widest_first",
            "no-policy": "number",
            "not-there": "missing",
            "mov": "widest_first",
        }
        lines = [f"{name} = neighbours_victims:{value}" for name, value in offers.items()]
        (dist_info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINT_GROUP}]", *lines]))
        monkeypatch.syspath_prepend(tmp_path)
        look_for_installed_policies()
        yield
        monkeypatch.undo()
        look_for_installed_policies()

    @pytest.mark.parametrize("name", ["as-class", "as-object", "as-function"])
    def test_offer_a_class_a_policy_or_a_function(self, name: str) -> None:
        policy = victim_policy(name)
        assert isinstance(policy, VictimPolicy)
        assert ids_of(policy.choose(LEASES, 4).victims) == (1,)
        assert name in victim_policy_names()

    def test_cannot_take_over_a_name_of_ours(self) -> None:
        assert victim_policy("mov") is VICTIM_POLICIES["mov"]
        assert victim_policy_names().count("mov") == 1

    @pytest.mark.parametrize("name", ["no-policy", "not-there"])
    def test_that_offer_no_policy_are_refused(self, name: str) -> None:
        with pytest.raises(InvalidField, match=f"entry point {name}: got 'neighbours_victims:"):
            victim_policy(name)
