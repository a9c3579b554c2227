"""TLS: where the service may listen without it, and whether its certificate and key can be used.

Bearer tokens are secrets on the way, so that without TLS only this machine may reach the service.
"""

import ssl
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificates

from leasehold.model.errors import InputError, InvalidField


def check_key_pair(certificate: Path, key: Path) -> None:
    """Load both as the server will; raises InputError for an invalid one."""
    for path in (certificate, key):
        _content(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")  # so that it never asks on a terminal
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "the key needs a password"
        raise InputError(certificate, None, f"cannot be used with the key {key}: {reason}") from None


def valid_until(certificate: Path) -> datetime:
    """Say until when the first certificate of a PEM file is valid; raises InputError."""
    try:
        return load_pem_x509_certificates(_content(certificate))[0].not_valid_after_utc
    except (ValueError, IndexError):
        raise InputError(certificate, None, "has no certificate in it") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None


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
