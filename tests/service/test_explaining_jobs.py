"""What nodes say to a job is told by groups of those that say the same, and each kind is judged once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matching.making import make_job
from tests.service.engine.job_worlds import no_outages

from leasehold.matching.needs import InputFile
from leasehold.matching.nodes import EvaluationTime, Link, Network, judge, judge_machine
from leasehold.matching.verdict import Why, never
from leasehold.service import jobs
from leasehold.service.commands import JobNodesSeen, JobSiteSilent
from leasehold.service.drivers.facts import NodeFacts
from leasehold.service.engine.nodes import NOT_LISTED, NodeRepository, node_of
from leasehold.service.engine.unit_of_work import UnitOfWork
from leasehold.service.jobs import NodeGroup, Verdicts, grouped
from leasehold.service.store.rows import NodeRow

GONE_AFTER_MS = 1_000
NETWORK = Network(ways={("far", "a"): Link(0, 1)})
FACTS = NodeFacts(name="n", cores=4, memory_mib=1000, disk_mib=50, free_cores=4, free_memory_mib=1000, free_disk_mib=50)

Looks = Sequence[tuple[int, JobNodesSeen | JobSiteSilent]]


def seen(looks: Looks) -> NodeRepository:
    """What is known after sites were looked at, at these times."""
    book = NodeRepository((), UnitOfWork(), no_outages(), ("a", "b"), GONE_AFTER_MS, 0)
    for at_ms, look in looks:
        if isinstance(look, JobNodesSeen):
            book.see(look, (), at_ms)
        else:
            book.lose(look, at_ms)
    return book


def nodes(*names: str, site: str = "a", **facts: Any) -> JobNodesSeen:
    return JobNodesSeen(site, tuple(replace(FACTS, name=name, **facts) for name in names))


def told(book: NodeRepository, now_ms: int = 10, **asked: Any) -> tuple[NodeGroup, ...]:
    moment = EvaluationTime(now_ms, asked.pop("fresh_for_ms", None))
    return grouped(book.kinds(now_ms), make_job(**asked), NETWORK, moment, ("a", "b"))


def test_nodes_that_say_the_same_are_one_group_of_which_the_first_five_by_name_are_named() -> None:
    names = [f"n{number}" for number in range(9, 0, -1)]
    (group,) = told(seen([(1, nodes(*names))]))
    assert (group.site, group.count) == ("a", 9)
    assert group.nodes == ("a/n1", "a/n2", "a/n3", "a/n4", "a/n5")


def test_so_are_nodes_that_differ_in_what_the_job_does_not_ask_for() -> None:
    look = JobNodesSeen("a", (FACTS, replace(FACTS, name="m", cores=64, cpu_mhz=9)))
    (group,) = told(seen([(1, look)]))
    assert (group.nodes, group.count) == (("a/m", "a/n"), 2)


@pytest.mark.parametrize(
    "other",
    [
        {"free_cores": 0},
        {"problem": "it is drained"},
        {"is_host": True},
        {"runs": False},
        {"memory_mib": 50, "free_memory_mib": 50},
        {"software": frozenset()},
    ],
)
def test_nodes_that_say_something_else_are_another(other: dict[str, Any]) -> None:
    usual = replace(FACTS, software=frozenset({("gcc", "12")}))
    look = JobNodesSeen("a", (usual, replace(usual, name="m", **other)))
    groups = told(seen([(1, look)]), needs="gcc")
    assert {(group.nodes, group.count) for group in groups} == {(("a/n",), 1), (("a/m",), 1)}


def test_each_site_tells_of_its_own_nodes() -> None:
    groups = told(seen([(1, nodes("n")), (1, nodes("n", site="b"))]))
    assert [(group.site, group.nodes) for group in groups] == [("a", ("a/n",)), ("b", ("b/n",))]


def test_those_that_would_do_come_first_then_the_many_before_the_few_and_last_those_that_are_down() -> None:
    looks = [
        nodes("down0", "down1", "down2", "down3", problem="it is drained"),
        nodes("short0", "short1", memory_mib=1, free_memory_mib=1),
        nodes("small0", "small1", "small2", cores=1, free_cores=1),
        nodes("used0", free_cores=0),
        nodes("fit0"),
    ]
    look = JobNodesSeen("a", tuple(chain.from_iterable(one.nodes for one in looks)))
    groups = told(seen([(1, look)]), cores=2)
    assert [group.nodes[0] for group in groups] == ["a/fit0", "a/used0", "a/small0", "a/short0", "a/down0"]


def test_when_a_node_was_seen_counts_only_where_that_is_too_long_ago() -> None:
    book = seen([(1, nodes("old", "n")), (5, nodes("n")), (6, nodes("old", "n", "new"))])
    assert [group.count for group in told(book)] == [3]
    book = seen([(1, nodes("n")), (100, nodes("m", site="b"))])
    assert [group.nodes for group in told(book, 100, fresh_for_ms=50)] == [("b/m",), ("a/n",)]


def test_a_node_that_is_gone_says_nothing() -> None:
    book = seen([(1, nodes("m", "n")), (5, nodes("m"))])
    assert {group.nodes: group.says.problem for group in told(book, 5 + GONE_AFTER_MS - 1)} == {
        ("a/m",): "",
        ("a/n",): NOT_LISTED,
    }
    assert [group.nodes for group in told(book, 5 + GONE_AFTER_MS)] == [("a/m",)]


def test_equal_nodes_are_judged_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []

    def count(kind: str, verdict: Any, *said: Any) -> Any:
        judged.append(kind)
        return verdict(*said)

    monkeypatch.setattr(jobs, "judge", partial(count, "as node", judge))
    monkeypatch.setattr(jobs, "judge_machine", partial(count, "as host", judge_machine))
    names = [f"n{number}" for number in range(1000)]
    book = seen([(1, nodes("x", *names, is_host=True)), (2, nodes(*names, is_host=True))])
    assert sum(group.count for group in told(book)) == 1001
    # The one that is not listed any more has another problem, and was seen at another time.
    assert sorted(judged) == ["as host", "as host", "as node", "as node"]


AMOUNTS = st.sampled_from([0, 1, 2, 3])
FOUND = st.builds(
    lambda name, cores, free, **more: replace(FACTS, name=name, cores=cores, free_cores=min(cores, free), **more),
    st.sampled_from([f"n{number}" for number in range(12)]),
    AMOUNTS,
    AMOUNTS,
    memory_mib=st.sampled_from([100, 200]),
    cpu_mhz=st.sampled_from([0, 2000]),
    bytes_per_s=st.sampled_from([0, 1000]),
    software=st.sampled_from([frozenset(), frozenset({("gcc", "12")}), frozenset({("gcc", "9")})]),
    is_host=st.booleans(),
    runs=st.booleans(),
    problem=st.sampled_from(["", "", "it is drained"]),
)
SITES = st.sampled_from(["a", "b"])
SEEN = st.builds(
    lambda site, found: JobNodesSeen(site, tuple({one.name: one for one in found}.values())),
    SITES,
    st.lists(FOUND, max_size=12),
)
LOOKS = st.lists(
    st.tuples(st.integers(0, 3000), SEEN | st.builds(JobSiteSilent, SITES, st.just("no answer"))), max_size=5
)
JOBS = st.builds(
    make_job,
    cores=AMOUNTS,
    memory_mib=st.sampled_from([100, 200]),
    cpu_mhz=st.sampled_from([0, 2000]),
    needs=st.sampled_from(["", "gcc", "gcc >= 10"]),
    deadline_ms=st.sampled_from([None, 5000, 9000]),
    inputs=st.sampled_from([(), (InputFile("sky", 3000, "far"),)]),
)


@given(LOOKS, JOBS, st.sampled_from([None, 500, 2000]), st.frozensets(SITES))
def test_the_groups_are_what_judging_each_node_says(
    looks: Looks, job: Any, fresh_for_ms: int | None, with_image: frozenset[str]
) -> None:
    now_ms = 3000
    book = seen(sorted(looks, key=lambda look: look[0]))
    moment = EvaluationTime(now_ms, fresh_for_ms)
    expected = defaultdict(list)
    for name, row in sorted(book.rows.items()):
        if not book.is_gone(row, now_ms):
            expected[row.site, one_by_one(row, job, moment, with_image)].append(name)
    groups = grouped(book.kinds(now_ms), job, NETWORK, moment, with_image)
    assert len({(group.site, group.says) for group in groups}) == len(groups)
    assert {(group.site, group.says): (group.count, list(group.nodes)) for group in groups} == {
        which: (len(names), names[:5]) for which, names in expected.items()
    }


def one_by_one(row: NodeRow, job: Any, moment: EvaluationTime, with_image: frozenset[str]) -> Verdicts:
    node = node_of(row)
    transfer_ms = NETWORK.transfer_ms(job.needs.inputs, row.site, node.capabilities.bytes_per_s)
    as_host = judge_machine(job, node, transfer_ms, moment) if row.site in with_image else never(Why.NO_IMAGE)
    return Verdicts(
        row.problem,
        judge(job, node, transfer_ms, moment) if row.runs else None,
        as_host if row.is_host else None,
    )
