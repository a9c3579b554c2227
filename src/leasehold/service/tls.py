"""The gateway's certificate and key: can they be used, before anybody has to find out the hard way?"""

import ssl
from datetime import datetime
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificates

from leasehold.model.errors import InputError


def check_key_pair(certificate: Path, key: Path) -> None:
    """Load both as the server will; raises InputError for the one that is no good."""
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
