"""Which issuers may be trusted at all, and what their consumers are called."""

from typing import Any

import pytest

from leasehold.model.errors import InvalidField
from leasehold.service.auth.issuers import Grant, Profile, TrustedIssuer, by_url, is_fetchable
from leasehold.service.auth.principal import Role

MEMBER = frozenset({Role.MEMBER})


def issuer(url: str = "https://wlcg.example", **more: Any) -> TrustedIssuer:
    return TrustedIssuer(url, **({"audience": ("https://gateway.example",), "profile": Profile.WLCG} | more))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://wlcg.example", "wlcg.example"),
        ("https://wlcg.example/", "wlcg.example"),
        ("https://WLCG.example", "wlcg.example"),
        ("https://wlcg.example/cms", "wlcg.example:cms"),
        ("https://wlcg.example:8443/cms/", "wlcg.example:8443:cms"),
    ],
)
def test_consumers_are_called_after_the_host_and_the_path_of_their_issuer(url: str, name: str) -> None:
    assert issuer(url).name == name


@pytest.mark.parametrize("url", ["https://wlcg.example/cms", "https://wlcg.example/cms/"])
def test_metadata_lie_where_openid_connect_discovery_says(url: str) -> None:
    assert issuer(url).discovery_url == "https://wlcg.example/cms/.well-known/openid-configuration"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2:8080", "localhost", "localhost:80", "[::1]:8080"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    assert is_fetchable(f"http://{host}")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "wlcg.example",
        "http://wlcg.example",
        "http://127.0.0.1.wlcg.example",
        "http://0.0.0.0",
        "ftp://wlcg.example",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://wlcg.example:port",
        "https://wlcg.example:99999",
        "https://[::1",
        "https://user@wlcg.example",
        "https://user:password@wlcg.example",
        "https://wlcg.example?tenant=cms",
        "https://wlcg.example#cms",
        "https://wlcg.example/two words",
        "https://wlcg.example/\n",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidField, match=r"^issuer\.url: ") as error:
        issuer(url)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("audience", {"audience": ()}),
        ("audience", {"audience": ("",)}),
        ("roles", {"roles": frozenset()}),
        ("groups", {"roles": frozenset({Role.GROUP_MANAGER})}),
        ("sites", {"roles": frozenset({Role.SITE_OPERATOR})}),
        ("sites", {"sites": frozenset({"two words"})}),
        ("grants", {"grants": {"cms": Grant(MEMBER)}}),
        ("grants", {"grants": {"/cms/": Grant(MEMBER)}}),
        ("grants", {"grants": {"/cms": Grant(MEMBER)}, "profile": Profile.SCITOKENS}),
        ("grants./cms.roles", {"grants": {"/cms": Grant(frozenset())}}),
        ("grants./cms.sites", {"grants": {"/cms": Grant(frozenset({Role.PEER}))}}),
        ("clock_skew_s", {"clock_skew_s": -1}),
        ("clock_skew_s", {"clock_skew_s": 601}),
        ("keys_cached_s", {"keys_cached_s": 59}),
        ("keys_kept_s", {"keys_cached_s": 7_200, "keys_kept_s": 7_199}),
        ("keys_kept_s", {"keys_kept_s": 31 * 86_400}),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        issuer(**change)
    assert error.value.field == f"issuer.{field}"


def test_the_usual_times_are_those_of_the_wlcg_profile() -> None:
    usual = issuer()
    assert (usual.clock_skew_s, usual.keys_cached_s, usual.keys_kept_s) == (60, 6 * 3_600, 4 * 86_400)


@pytest.mark.parametrize("again", ["https://wlcg.example", "https://wlcg.example/", "https://WLCG.example"])
def test_no_two_issuers_name_their_consumers_alike(again: str) -> None:
    with pytest.raises(InvalidField, match="each issuer once"):
        by_url([issuer(), issuer(again)])


def test_one_host_may_have_several_issuers() -> None:
    urls = ["https://wlcg.example/cms", "https://wlcg.example/atlas"]
    assert list(by_url(map(issuer, urls))) == urls
