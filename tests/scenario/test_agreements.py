"""Agreements in a scenario: read with their lines, checked against its clusters, and enforced in its runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.simulation.scenario.parse import scenario_from_dict, to_toml
from leasehold.simulation.scenario.sites import is_about_sharing, places, sharing
from leasehold.simulation.scenario.sources import open_streams, with_sizes
from leasehold.simulation.scenario.spec import Scenario

Load = Callable[[str], Scenario]

AGREED = """
[sharing]
without_agreement = "refuse"
starts_at = 2026-09-01T00:00:00+02:00

[[domain]]
name = "das"
sites = ["a"]

[[agreement]]
name = "atlas"
provider = "das"
consumer = "atlas"
kind = "commitment"
epoch_share = 0.3
epoch_s = 1200
burst_share = 0.6
burst_s = 300
begin_s = 60

[[agreement]]
name = "atlas-production"
provider = "a"
consumer = "atlas/production"
kind = "no-limit"
lending_limit = 2
parent = "atlas"
"""


@pytest.fixture
def agreed(loaded: Load, small_toml: str) -> Scenario:
    return loaded(small_toml + AGREED)


def test_a_scenario_without_agreements_has_nothing_to_enforce(loaded: Load, small_toml: str) -> None:
    scenario = loaded(small_toml)
    assert not is_about_sharing(scenario)
    assert sharing(scenario) is None


def test_its_agreements_domains_and_settings_are_enforced(agreed: Scenario) -> None:
    enforced = sharing(agreed)
    assert enforced is not None
    assert [one.name for one in enforced.book.applying("atlas/production/simulation", "a", 60_000)] == [
        "atlas-production",
        "atlas",
    ]
    assert not enforced.book.applying("atlas", "a", 59_999)
    assert enforced.settings.without_agreement == "refuse"
    assert enforced.settings.starts_at_ms == 1_788_213_600_000


def test_it_is_written_as_it_was_read(agreed: Scenario, loaded: Load) -> None:
    assert scenario_from_dict(agreed.to_dict()) == agreed
    assert loaded(to_toml(agreed)) == agreed


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('sites = ["a"]', 'sites = ["b"]', 7, "domain[0].sites: got 'b', expected one of a"),
        ('name = "das"', 'name = "a"', 6, "domain[0].name: got 'a', expected a name that no site has"),
        ('provider = "das"', 'provider = "dos"', 11, "agreement[0].provider: got 'dos', expected one of"),
        ('consumer = "atlas"', 'consumer = "@dos"', 12, "agreement[0].consumer: got '@dos'"),
        ("begin_s = 60", 'begin_s = 60\nresource = "licence:x"', 19, "[0].resource: got 'licence:x'"),
        ("begin_s = 60", "begin_s = 60\nend_s = 60", 19, "[0].end_s: got 60, expected a time after"),
        ('parent = "atlas"', 'parent = "atlsa"', 26, "agreement[1].parent: got 'atlsa', expected one of"),
        ('"atlas/production"', '"cms"', 23, "a consumer beneath 'atlas'"),
        ('without_agreement = "refuse"', "without_agreement = 1", 2, "sharing.without_agreement: got 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_line(
    loaded: Load, small_toml: str, old: str, new: str, line: int, message: str
) -> None:
    assert old in AGREED
    text = small_toml + AGREED.replace(old, new, 1)
    with pytest.raises(InputError) as caught:
        loaded(text)
    assert message in str(caught.value)
    before = len(small_toml.splitlines()) + 1
    assert caught.value.line == before + line


def test_agreements_that_are_parts_of_each_other_are_refused(loaded: Load, small_toml: str) -> None:
    rounds = AGREED.replace("begin_s = 60", 'parent = "atlas-production"')
    with pytest.raises(InputError, match=r"agreement\[0\]\.(parent|consumer)"):
        loaded(small_toml + rounds)


def test_a_delegate_has_no_more_than_its_delegator(loaded: Load, small_toml: str) -> None:
    more = AGREED.replace('kind = "no-limit"', 'kind = "decay"\nshare = 0.4\nwindow_s = 300')
    with pytest.raises(InputError, match=r"agreement\[1\]\.share: got '40%', expected at most 30%"):
        loaded(small_toml + more)


class TestStreams:
    def test_a_stream_says_what_its_requests_are_bound_to_and_claim(self, loaded: Load, small_toml: str) -> None:
        has = small_toml.replace("slots = 8", 'slots = 8\nresources = { "licence:matlab" = 3 }')
        claims = 'consumer = "atlas/production"\ndomain = "a"\nclaims = { "licence:matlab" = 2 }\n'
        scenario = loaded(has.replace('log = "own.swf"\nsite = "a"', DAS2 + 'site = "a"') + claims)
        assert places(scenario)[0].capacity == {"cpus": 8, "licence:matlab": 3}
        jobs = list(open_streams(scenario, []))
        guest = next(job for job in jobs if job.site is None)
        own = next(job for job in jobs if job.site == "a")
        assert (guest.consumer, guest.domain) == ("atlas/production", "a")
        assert guest.claims == (("licence:matlab", 2),)
        assert (own.consumer, own.domain, own.claims) == ("own", "", ())
        assert is_about_sharing(scenario)

    def test_it_is_bound_to_what_there_is(self, loaded: Load, small_toml: str) -> None:
        with pytest.raises(InputError, match=r"stream\[1\]\.domain: got 'das', expected one of a"):
            loaded(small_toml + 'domain = "das"\n')

    def test_a_path_of_fields_names_the_consumer(self, loaded: Load, small_toml: str, swf: Callable[..., Path]) -> None:
        swf("own.swf", [(0, 60, 1, 7, 3, 1), (1, 60, 1, -1, 3, 1)])
        text = small_toml.replace('site = "a"', 'site = "a"\nconsumer_by = "vo-{group}/{user}"')
        jobs = [job for job in open_streams(loaded(text), []) if job.site == "a"]
        assert [job.consumer for job in jobs] == ["vo-3/7", "vo-3/unknown"]

    @pytest.mark.parametrize("text", ["{grup}", "{group", "grup", "{}"])
    def test_a_path_of_fields_that_there_are_not_is_refused(self, loaded: Load, small_toml: str, text: str) -> None:
        with pytest.raises(InputError, match=r"stream\[0\]\.consumer_by: "):
            loaded(small_toml.replace('site = "a"', f'site = "a"\nconsumer_by = "{text}"'))


DAS2 = """\
model = "das2"
l = 0.5
m = 1.5
h = 3
q = 0.9
p_one = 0.2
p_pow2 = 0.5
a = 4.6
b = 1.7
alpha = 60.0
beta = 0.5
"""


def test_clusters_that_a_log_makes_are_checked_when_it_was_read(loaded: Load, swf: Callable[..., Path]) -> None:
    swf("own.swf", [(0, 60, 1, 7, 3, 1), (1, 60, 1, 8, 3, 2)])
    text = 'name = "x"\n[[stream]]\nname = "own"\nlog = "own.swf"\ncluster_by = "partition"\n'
    agreement = '[[agreement]]\nname = "all"\nprovider = "partition-{}"\nconsumer = "*"\nkind = "no-limit"\n'
    assert sharing(with_sizes(loaded(text + agreement.format(2)))) is not None
    scenario = with_sizes(loaded(text + agreement.format(3)))
    with pytest.raises(InvalidField, match=r"agreement\[0\]\.provider: got 'partition-3'"):
        sharing(scenario)


def test_names_from_elsewhere_than_a_file_have_no_line() -> None:
    values = {"name": "x", "cluster": [{"name": "a", "slots": 1, "resources": {"cpus": 2}}], "stream": []}
    with pytest.raises(InvalidField, match=r"^cluster\[0\]\.resources\.cpus: got 2"):
        scenario_from_dict(values)
    assert issubclass(UnknownName, InvalidField)
