"""Which nodes offer themselves, and when again: two thresholds, an end, and a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.jobs.offers import MILLION, MOST_STANDING, OfferingNodes, OfferTerms, load_of
from leasehold.matching.needs import Amounts
from leasehold.model.errors import InvalidField

TERMS = OfferTerms(below=250_000, again_above=500_000, lasts_ms=100)


def test_a_node_offers_itself_once_until_it_was_loaded_in_between() -> None:
    nodes = OfferingNodes(TERMS)
    loads = [600_000, 250_000, 100_000, 499_999, 200_000, 500_000, 250_001, 250_000]
    assert [nodes.due({"n1": load}, at_ms) for at_ms, load in enumerate(loads)] == [
        *([], ["n1"], [], [], []),
        *([], [], ["n1"]),
    ]


def test_an_offer_that_has_expired_or_was_not_heard_is_made_again() -> None:
    nodes = OfferingNodes(TERMS)
    assert [nodes.due({"n1": 0}, at_ms) for at_ms in (0, 99, 100)] == [["n1"], [], ["n1"]]
    nodes.unheard("n1")
    assert nodes.due({"n1": 0}, 101) == ["n1"]


def test_a_node_that_was_away_may_offer_itself_again() -> None:
    nodes = OfferingNodes(TERMS)
    assert [nodes.due(there, 1) for there in ({"n1": 0}, {}, {"n1": 0})] == [["n1"], [], ["n1"]]


def test_of_an_idle_site_only_so_many_offer_themselves_the_least_loaded_first() -> None:
    loads = {f"n{number:03}": number for number in range(2 * MOST_STANDING)}
    nodes = OfferingNodes(TERMS)
    assert nodes.due(loads, 0) == sorted(loads)[:MOST_STANDING]
    assert nodes.due(loads, 1) == []
    assert nodes.due(loads | {"n000": MILLION}, 2) == [f"n{MOST_STANDING:03}"]


@pytest.mark.parametrize(("below", "again"), [(500_000, 500_000), (-1, 500_000), (0, MILLION + 1)])
def test_thresholds_that_are_no_hysteresis_are_refused(below: int, again: int) -> None:
    with pytest.raises(InvalidField, match=r"offer_again_above: got .*, expected more than offer_below"):
        OfferTerms(below, again)


@given(*(st.integers(1, 64) for _ in range(2)), st.data())
def test_a_load_is_the_larger_part_in_use(cores: int, memory_mib: int, data: st.DataObject) -> None:
    free = Amounts(data.draw(st.integers(0, cores)), data.draw(st.integers(0, memory_mib)), 0)
    load = load_of(Amounts(cores, memory_mib, 0), free)
    assert load == pytest.approx(MILLION * max(1 - free.cores / cores, 1 - free.memory_mib / memory_mib), abs=1)


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from([None, 0, 250_000, 400_000, 500_000, MILLION]))))
def test_between_two_offers_there_was_load_absence_or_the_end_of_the_first(
    looks: list[tuple[int, int | None]],
) -> None:
    nodes, now_ms, last_ms, is_armed = OfferingNodes(TERMS), 0, None, True
    for pause_ms, load in looks:
        now_ms += pause_ms
        is_armed |= load is None or load >= TERMS.again_above
        is_armed |= last_ms is not None and now_ms >= last_ms + TERMS.lasts_ms
        offers = nodes.due({} if load is None else {"n": load}, now_ms)
        assert bool(offers) == (is_armed and load is not None and load <= TERMS.below)
        if offers:
            last_ms, is_armed = now_ms, False
