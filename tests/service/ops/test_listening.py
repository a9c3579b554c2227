"""Where the service may listen: everywhere with TLS, and without it where nobody else can hear."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InvalidField
from leasehold.service.tls import check_listening, is_loopback

LOOPBACK = [
    "127.0.0.1",
    "127.0.0.53",
    "127.255.255.254",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000::0001",
    "[::1]",
    "::1%lo",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "localhost",
    "LocalHost",
    "localhost.",
]
BEYOND = [
    "",
    "*",
    "0.0.0.0",  # noqa: S104 - what is refused here
    "::",
    "0::0",
    "[::]",
    "::ffff:0.0.0.0",
    "::ffff:192.0.2.7",
    "::127.0.0.1",
    "192.0.2.7",
    "10.0.0.1",
    "169.254.1.1",
    "fe80::1",
    "2001:db8::1",
    "gateway.example",
    "localhost.example",
    "notlocalhost",
    "localhost..",
    "127.0.0.1.example",
    "127.1",
    "127.0.0.01",
    "0x7f000001",
    "2130706433",
    "0",
    " 127.0.0.1",
    "127.0.0.1,0.0.0.0",
    "127.0.0.1\n0.0.0.0",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_needs_no_tls(host: str) -> None:
    check_listening(host, "", "", behind_tls_proxy=False)


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_it_there_is_no_listening_without(host: str) -> None:
    with pytest.raises(InvalidField, match=r"^service\.host: got .* expected a loopback address") as error:
        check_listening(host, "", "", behind_tls_proxy=False)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("host", LOOPBACK + BEYOND)
def test_with_tls_or_behind_it_every_host_will_do(host: str) -> None:
    check_listening(host, "server.crt", "server.key", behind_tls_proxy=False)
    check_listening(host, "", "", behind_tls_proxy=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
@pytest.mark.parametrize(("given_", "missing"), [("certificate", "tls_key"), ("key", "tls_certificate")])
def test_half_of_tls_is_a_mistake_wherever_it_listens(host: str, given_: str, missing: str) -> None:
    certificate, key = ("server.crt", "") if given_ == "certificate" else ("", "server.key")
    with pytest.raises(InvalidField) as error:
        check_listening(host, certificate, key, behind_tls_proxy=True)
    assert error.value.field == f"service.{missing}"


@given(st.ip_addresses())
def test_every_address_is_judged_as_the_standard_library_does(address: IPv4Address | IPv6Address) -> None:
    expected = (getattr(address, "ipv4_mapped", None) or address).is_loopback
    assert is_loopback(str(address)) == expected


@given(st.text())
def test_no_text_is_too_odd_to_be_judged(host: str) -> None:
    assert isinstance(is_loopback(host), bool)
