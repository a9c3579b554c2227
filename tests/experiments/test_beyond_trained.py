"""What sites learnt while their own users came at another rate, and what a run makes of it."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.experiments.beyond import evaluation, world
from leasehold.experiments.beyond.plan import ContenderRun, plan
from leasehold.experiments.evaluation import Size
from leasehold.routing.demand import HORIZONS_MS, LocalDemand

S, HOUR = 1_000, 3_600_000
HOURS = 2
SITES = {"C64": 64, "C128": 128, "C256": 256}


def configuration(setting: str, contender: str) -> ContenderRun:
    return plan(HOURS).configurations[f"beyond-{setting}-{contender}-{HOURS}h"]


@pytest.mark.parametrize("contender", ["price", "selective"])
def test_who_looks_at_sites_as_they_are_has_a_past(contender: str) -> None:
    assert world.is_trained(configuration("r2-learnt-at-1.6", contender))
    assert not world.is_trained(configuration("r2", contender))


@pytest.mark.parametrize("contender", ["rr", "least-in-flight", "clairvoyant"])
def test_who_does_not_has_none(contender: str) -> None:
    assert not world.is_trained(configuration("r2-learnt-at-1.6", contender))


def test_results_of_a_trained_run_are_not_taken_for_others() -> None:
    found = evaluation.campaign([], Size(quick=True)).marks
    marks = {name: found[f"beyond-{name}-selective-6h"] for name in ("r2", "r2-learnt-at-1.6")}
    assert len(set(marks.values())) == len(marks)


@pytest.fixture(scope="module", autouse=True)
def _shorter_past() -> Iterator[None]:
    """A day is enough to see what is learnt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "WEEK_MS", 24 * HOUR)
        yield


@pytest.fixture(scope="module")
def memories() -> dict[float, dict[str, world.Memory]]:
    """What each site remembers of its past at two rates."""
    return {rate: world.learnt(configuration(f"r2-learnt-at-{rate}", "selective"), 1) for rate in (0.6, 1.6)}


@pytest.fixture(scope="module")
def learnt(memories: dict[float, dict[str, world.Memory]]) -> dict[float, dict[str, LocalDemand]]:
    """The tables of that past."""
    return {
        rate: {name: LocalDemand.recalled(memory, SITES[name]) for name, memory in by_site.items()}
        for rate, by_site in memories.items()
    }


@pytest.mark.soak
@pytest.mark.parametrize("site", SITES)
def test_who_had_more_local_users_expects_more(learnt: dict[float, dict[str, LocalDemand]], site: str) -> None:
    """P(peak >= half of the site) within five minutes, over all ages of the last start."""
    few, many = (learnt[rate][site] for rate in (0.6, 1.6))
    index = HORIZONS_MS.index(320 * S)
    assert few.is_learnt
    assert many.is_learnt
    expects = [sum(table.tail(index, age).at_least(SITES[site] // 2) for age in range(7)) for table in (few, many)]
    assert expects[0] < expects[1]


@pytest.mark.soak
def test_a_run_goes_on_from_what_was_learnt() -> None:
    """Who asks for it decides otherwise, who does not as ever."""
    found, usual = (
        {contender: world.measure(configuration(setting, contender).name, 1) for contender in ("selective", "rr")}
        for setting in ("r2-learnt-at-0.6", "r2")
    )
    assert found["selective"] != usual["selective"]
    assert found["rr"] == usual["rr"]


@pytest.mark.soak
def test_each_replication_has_a_past_of_its_own(memories: dict[float, dict[str, world.Memory]]) -> None:
    one = configuration("r2-learnt-at-0.6", "selective")
    assert world.learnt(one, 1) == memories[0.6]
    assert world.learnt(one, 2) != memories[0.6]


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(1, 8), st.integers(1, 900)), max_size=40))
def test_a_table_says_the_same_when_its_past_ends_now(leases: list[tuple[int, int, int]]) -> None:
    """Moved in time, every question is answered as by a table that remembers the same."""
    table, now_ms = LocalDemand(8), 0
    for number, (gap_s, vms, held_s) in enumerate(leases):
        now_ms += gap_s * S
        table.began(number, vms, now_ms)
        now_ms += held_s * S
        table.ended(number, held_s * S, now_ms)
    table.advance(now_ms)
    then, now = (LocalDemand.recalled(memory, 8) for memory in (table.memory(), world.ending_now(table.memory())))
    assert now.scale_ms == then.scale_ms
    assert now.is_learnt == then.is_learnt
    for span_ms in (10 * S, 300 * S, HOUR):
        expected, found = then.outlook(now_ms).within(span_ms), now.outlook(0).within(span_ms)
        assert [found.at_least(vms) for vms in range(9)] == [expected.at_least(vms) for vms in range(9)]
