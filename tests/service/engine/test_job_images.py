"""Images in the engine: one catalogue for all sites, and each image built where its base is."""

from dataclasses import replace

import pytest
from tests.service.discovery.pretend import BASE
from tests.service.engine.job_worlds import SETTINGS, S, Shop, facts, job, nodes

from leasehold.service.commands import JobImageBuilt, JobImageFailed, JobImagesSeen, JobSiteSilent
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.engine.images import NOWHERE
from leasehold.service.engine.jobs import JobSetup
from leasehold.service.engine.tasks import Build
from leasehold.service.store.store import Store

GROMACS = frozenset({("gromacs", "2022.5")})
FOLDING = ImageFacts(name="folding", software=BASE.software | GROMACS, size_bytes=2 << 20, least_memory_mib=200)
KEY = "base+gromacs=2022.5"


@pytest.fixture
def shop(sqlite_store: Store) -> Shop:
    """Sites a and b, each with a host for machines, and neither has told of its images yet."""
    settings = replace(SETTINGS, images_awaited=True)
    shop = Shop(sqlite_store, setup=JobSetup(settings, image_sites=frozenset("ab")))
    host = facts("h1", is_host=True, runs=False, software=frozenset())
    shop.do(nodes(host), nodes(host, site="b"))
    return shop


def images(*there: ImageFacts, site: str = "a", packages: frozenset[tuple[str, str]] = GROMACS) -> JobImagesSeen:
    """A site has these images, and can build more from the base."""
    return JobImagesSeen(site, there, Buildable("base", packages))


def rows(shop: Shop) -> list[tuple[str, str, str]]:
    return [(row.name, row.site, row.state) for row in shop.store.images()]


def test_nobody_is_refused_before_all_sites_have_told_of_their_images(shop: Shop) -> None:
    shop.do(job("gromacs"))
    shop.do(images(BASE))
    assert shop.job().record.state == "waiting"
    shop.do(images(FOLDING, site="b"))
    assert shop.tried() == [("b/h1", "ordered", "")]
    assert shop.attempts()[0].attempt.image == "folding"
    [order] = shop.orders["b"]
    assert (order.constraints.image, order.memory_mib) == ("folding", 1224)


def test_a_site_that_is_silent_is_not_waited_for(shop: Shop) -> None:
    shop.do(job("gromacs"), images(FOLDING))
    assert shop.job().record.state == "waiting"
    shop.do(JobSiteSilent("b", "no answer"))
    assert shop.tried() == [("a/h1", "ordered", "")]


def test_an_image_is_built_at_each_site_and_the_first_serves(shop: Shop) -> None:
    shop.do(images(BASE), images(BASE, site="b"), job("gromacs"))
    assert shop.job().record.state == "building"
    assert shop.errands.builds == [Build(KEY, "a", GROMACS), Build(KEY, "b", GROMACS)]
    shop.do(JobImageBuilt(KEY, "b", FOLDING))
    assert shop.tried() == [("b/h1", "ordered", "")]
    assert rows(shop) == [
        ("base", "a", "there"),
        ("base", "b", "there"),
        (KEY, "a", "building"),
        ("folding", "b", "there"),
    ]


def test_a_build_has_failed_when_all_have(shop: Shop) -> None:
    shop.do(images(BASE), images(BASE, site="b"), job("gromacs"))
    shop.do(JobImageFailed(KEY, "a", "unmet dependency; see a.log"))
    assert shop.job().record.state == "building"
    shop.do(JobImageFailed(KEY, "b", "unmet dependency; see b.log"))
    assert shop.state() == ("refused", "image-failed")
    assert shop.job().record.what == "unmet dependency; see b.log"


def test_what_was_being_built_is_built_again_after_a_restart(shop: Shop) -> None:
    shop.do(images(BASE), images(BASE, site="b"), job("gromacs"))
    shop.restart()
    shop.pass_time(0)
    assert Build(KEY, "a", GROMACS) in shop.errands.builds
    shop.do(images(BASE), images(BASE, site="b"))
    shop.do(JobImageBuilt(KEY, "a", FOLDING))
    assert shop.tried() == [("a/h1", "ordered", "")]


def test_an_image_that_only_another_site_has_is_built_there_first(shop: Shop) -> None:
    shop.do(images(BASE), images(BASE, site="b"), job("gromacs"))
    shop.do(JobImageBuilt(KEY, "a", FOLDING), JobImageFailed(KEY, "b", "no disk"))
    full = facts("h1", is_host=True, runs=False, free_memory_mib=0)
    shop.do(nodes(full), images(BASE, FOLDING), job("gromacs"))
    assert shop.state(2) == ("waiting", "site-said-not-now")
    assert shop.attempts(2)[0].attempt.detail == "b has not the image folding yet"
    assert shop.errands.builds[-1] == Build("folding", "b", GROMACS)
    shop.do(JobImageBuilt("folding", "b", FOLDING))
    shop.pass_time(S)
    shop.do(nodes(facts("h1", is_host=True, runs=False), site="b"))
    shop.pass_time(120 * S)
    assert shop.tried(2)[1] == ("b/h1", "ordered", "")


def test_an_image_that_is_gone_is_in_no_catalogue(shop: Shop) -> None:
    shop.do(images(BASE, FOLDING), images(BASE, site="b"))
    shop.do(images(BASE, packages=frozenset()))
    assert ("folding", "a", "there") not in rows(shop)
    shop.do(images(BASE, site="b", packages=frozenset()))
    shop.do(job("gromacs"))
    assert shop.job().record.state == "refused"


def test_where_nothing_can_be_built_any_more_it_has_failed_for_now(shop: Shop) -> None:
    shop.do(images(BASE), images(BASE, site="b"))
    for site in "ab":
        shop.engine.jobs.images.buildable.see(site, None)
    shop.do(job("gromacs"))
    assert (shop.job().record.state, shop.job().record.what) == ("waiting", NOWHERE)
