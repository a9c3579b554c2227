"""What tests of operations need: certificates of their own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Pair = tuple[Path, Path]


@pytest.fixture
def key_pair(tmp_path: Path) -> Callable[..., Pair]:
    """Make a certificate for this machine, valid for so long from now on, and its key."""

    def make(valid: timedelta = timedelta(days=90), password: bytes = b"") -> Pair:
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        private = ec.generate_private_key(ec.SECP256R1())
        certificate.write_bytes(_certificate(private, valid).public_bytes(serialization.Encoding.PEM))
        key.touch(mode=0o600)
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption(),
            )
        )
        return certificate, key

    return make


def _certificate(private: ec.EllipticCurvePrivateKey, valid: timedelta) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
