"""What is done to try something is undone, and what is looked at for that does not go with the leases."""

import gc
import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import fields, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.coallocation.together import coallocation, part, two_sites

from leasehold.gateway import snapshot as watching
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.planning import plan_request
from leasehold.gateway.snapshot import DictWatch, StateSnapshot, undone, watch
from leasehold.model.agreement import CPUS, Agreement, NoLimit
from leasehold.model.coallocation import Part
from leasehold.model.event import CoAllocationSubmitted, Event, Submitted
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.model.value_dict import ValueDict
from leasehold.routing.registry import routing_policy
from leasehold.sharing.enforcement import Sharing, SharingSettings
from leasehold.sharing.parties import Provider


def request(number: int, site: str | None = None) -> Request:
    kind = LeaseType.SUSPENDABLE if site is None else LeaseType.NON_PREEMPTABLE
    return Request(number, kind, 1, 10_000, 0, 0, site=site, consumer="atlas")


# What it costs


def holding(leases: int, coallocations: int = 0) -> Gateway:
    """A gateway with so many leases, local ones and guests, and co-allocations for two VMs each."""
    agreed = [Agreement("everybody", "*", "*", NoLimit())]
    sharing = Sharing([Provider("a", {CPUS: 4}), Provider("b", {CPUS: 6})], SharingSettings(), agreed)
    there = Gateway(two_sites(), Routing(routing_policy("rr")(Random(0))), sharing=sharing)
    asked: list[Event] = [Submitted(request(number, "a" if number % 2 else None)) for number in range(1, leases + 1)]
    asked += [CoAllocationSubmitted(coallocation(number, part(1), part(1))) for number in range(1, coallocations + 1)]
    there.handle(asked, 0)
    there.handle([], 0)  # what moved last is none of what is held
    return there


def visited(there: Gateway) -> int:
    before = StateSnapshot(there, there.leases.values())
    before.restore()
    return before.visited


def test_how_much_is_visited_does_not_go_with_the_leases() -> None:
    few, many = holding(50), holding(500)
    assert (len(few.leases), len(many.leases)) == (50, 500)
    assert {lease.state for lease in many.leases.values()} == {LeaseState.RUNNING, LeaseState.WAITING}
    assert visited(many) - visited(few) <= 5


def test_of_a_coallocation_request_only_what_can_change_is_visited() -> None:
    few, many = holding(50, coallocations=2), holding(50, coallocations=20)
    coallocation_with_its_list_and_parts = 1 + 1 + 2
    assert visited(many) - visited(few) <= 18 * coallocation_with_its_list_and_parts + 5


def test_leases_that_are_explained_stay_the_ones_that_they_are() -> None:
    there = holding(20)
    leases, before = dict(there.leases), pickle.dumps(there)
    plan_request(there, request(99, "b"), 1_000)
    assert there.leases == leases
    assert {type(lease) for lease in leases.values()} == {Lease}
    assert pickle.dumps(there) == before


# What is watched


@pytest.fixture(params=["as it is", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of watching: as it is with these classes, and as it is where they are compiled."""
    if request.param == "compiled":
        monkeypatch.setattr(watching, "is_compiled", lambda _: True)


def leases(count: int = 3) -> list[Lease]:
    return [Lease(number, request(number), 1, number, 10_000) for number in range(count)]


def values(found: Any) -> list[Any]:
    return [getattr(found, field.name) for field in fields(found)]


def end(watches: list[watching.Watch]) -> None:
    for one in watches:
        one.end()


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.integers() | st.none() | st.text(max_size=3)))


@pytest.mark.parametrize("is_compiled", [watching.is_compiled, lambda _: True])
@given(changes=CHANGES)
def test_whatever_is_set_is_put_back(is_compiled: Callable[[type], bool], changes: list[Any]) -> None:
    found = [*leases(), *(Part(number) for number in range(3))]
    before = [values(one) for one in found]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "is_compiled", is_compiled)
        watches = watch(found)
        for which, field, value in changes:
            names = [one.name for one in fields(found[which])]
            name = names[field % len(names)]
            setattr(found[which], name, value)
            assert getattr(found[which], name) == value
        end(watches)
    assert [values(one) for one in found] == before
    assert [type(one) for one in found] == [Lease] * 3 + [Part] * 3


@pytest.mark.usefixtures("way")
def test_what_is_set_afterwards_stays() -> None:
    found = leases()
    watches = watch(found)
    found[0].site = "a"
    end(watches)
    found[0].site = "b"
    end(watch(found))
    assert found[0].site == "b"


@pytest.mark.usefixtures("way")
def test_one_that_is_watched_passes_for_what_it_is_and_copies_of_it_are_not_watched() -> None:
    found = leases()
    watches = watch(found)
    assert isinstance(found[0], Lease)
    assert repr(found[0]) == repr(leases()[0])
    other, deep = replace(found[0], site="a"), deepcopy(found[0])
    deep.site, other.vms = "b", 7
    end(watches)
    assert (other.site, other.vms, deep.site) == ("a", 7, "b")
    assert (found[0].site, found[0].vms) == ("", 1)


@pytest.mark.usefixtures("way")
def test_who_watches_within_a_watch_puts_back_what_was_set_since() -> None:
    found = leases()
    outer = watch(found)
    found[0].site = "a"
    inner = watch(found)
    found[0].site, found[1].site = "b", "b"
    end(inner)
    assert [lease.site for lease in found] == ["a", "", ""]
    found[2].site = "c"
    end(outer)
    assert [(type(lease), lease.site) for lease in found] == [(Lease, "")] * 3


def test_others_are_not_watched() -> None:
    found, other = leases(), leases()[0]
    watches = watch(found)
    other.site = "a"
    end(watches)
    assert other.site == "a"


# Dicts that are watched

KEYS = st.integers(0, 7)
ENTRIES = st.dictionaries(KEYS, st.integers(), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("__setitem__", "setdefault")), KEYS, st.integers()),
        st.tuples(st.just("pop"), KEYS, st.none()),
        st.tuples(st.sampled_from(("__delitem__", "pop", "setdefault", "get")), KEYS),
        st.tuples(st.sampled_from(("update", "__ior__")), ENTRIES),
        st.tuples(st.sampled_from(("popitem", "clear", "copy"))),
    ),
    max_size=8,
)


def answer_of(found: dict[int, int], step: tuple[Any, ...]) -> Any:
    name, *args = step
    try:
        return getattr(found, name)(*args)
    except KeyError:
        return KeyError


@given(ENTRIES, STEPS, STEPS, STEPS)
def test_a_watched_dict_does_what_any_dict_does_and_gets_back_what_was_in_it_in_its_order(
    entries: dict[int, int], first: list[Any], within: list[Any], last: list[Any]
) -> None:
    found = ValueDict(entries)
    outer = DictWatch([found])
    for steps in (first, within, last):
        other = dict(found)
        watched = DictWatch([found]) if steps is within else outer
        for step in steps:
            assert answer_of(found, step) == answer_of(other, step)
            assert list(found.items()) == list(other.items())
        if steps is within:
            watched.end()
        else:
            outer.roll_back()
            assert list(found.items()) == list(entries.items())
    outer.end()
    assert list(found.items()) == list(entries.items())
    assert type(found) is ValueDict


def test_a_copy_of_a_watched_dict_is_not_watched() -> None:
    found = ValueDict({1: 2})
    watched = DictWatch([found])
    copies = [deepcopy(found), copy(found)]
    for one in copies:
        assert (type(one), one) == (ValueDict, {1: 2})
        one[3] = 4
    watched.end()
    assert copies == [{1: 2, 3: 4}] * 2
    assert found == {1: 2}


# What is looked into


def test_tuples_beside_other_values_are_looked_into() -> None:
    inside = [1]
    root = SimpleNamespace(some=[("x", inside), None], one={"a": (inside,), "b": 2.5})
    with undone(root, ()):
        inside.append(2)
        root.some[0] = ()
    assert root.some == [("x", [1]), None]
    assert root.some[0][1] is inside
    assert root.one["a"][0] is inside


def left_for_the_garbage_collector(gateway: Gateway) -> int:
    gc.collect()
    gc.disable()
    try:
        with undone(gateway, gateway.leases.values()):
            pass
        return gc.collect()
    finally:
        gc.enable()


def test_hardly_anything_is_left_for_the_garbage_collector() -> None:
    """A class is made for the watch, and nothing grows with the leases."""
    assert left_for_the_garbage_collector(holding(50)) == left_for_the_garbage_collector(holding(500)) < 100
