"""Where may the service listen? Beyond this machine only behind TLS: bearer tokens are secrets on the way."""

from ipaddress import IPv6Address, ip_address

from leasehold.model.errors import InvalidField


def check_listening(host: str, tls_certificate: str, tls_key: str, *, behind_tls_proxy: bool) -> None:
    """Refuse to listen where others could read tokens on the way.

    ``tls_certificate`` and ``tls_key`` are the paths of files, "" without; ``behind_tls_proxy`` is the
    operator's word that a proxy in front speaks TLS. Raises InvalidField.
    """
    if bool(tls_certificate) != bool(tls_key):
        missing = "tls_key" if tls_certificate else "tls_certificate"
        raise InvalidField(f"service.{missing}", "", "a file: a certificate and its key go together")
    if not (is_loopback(host) or tls_certificate or behind_tls_proxy):
        raise InvalidField(
            "service.host",
            host,
            "a loopback address such as 127.0.0.1, or a tls_certificate, or behind_tls_proxy = true",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this host, whatever form the address has.

    Of names only ``localhost`` is believed, which RFC 6761 fixes; any other may mean something else tomorrow.
    Old spellings such as ``127.1`` are not believed either, and "" is every address there is.
    """
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
