"""The benchmark of agreements asks what it says that it asks."""

from random import Random

from bench.sharing import asked, contracts, latencies, places
from leasehold.sharing.enforcement import Sharing


def test_as_many_agreements_are_in_force_as_asked_for() -> None:
    sharing = Sharing(places(), agreements=contracts(1_000))
    assert len(sharing.book.in_force(0)) == 1_000


def test_three_of_them_apply_to_a_question() -> None:
    sharing = Sharing(places(), agreements=contracts(1_000))
    applying = sharing.book.applying("vo3/group1/user1", "site2-0", 0)
    assert [one.name for one in applying] == ["vo3-domain2-1", "vo3-domain2", "all"]


def test_some_are_admitted_and_some_are_not() -> None:
    sharing = Sharing(places(), agreements=contracts(100))
    paths = sorted({one.consumer for one in sharing.book.agreements.values() if "/" in one.consumer})
    admitted_ns, refused_ns = asked(sharing, paths, 3_000, Random(1))
    assert admitted_ns
    assert refused_ns
    assert len(admitted_ns) + len(refused_ns) == 3_000


def test_it_tells_what_it_measured() -> None:
    told = latencies(200, 2_000)
    assert sum(one["count"] for one in told) == 2_000
    assert all(one["median_us"] > 0 for one in told)
