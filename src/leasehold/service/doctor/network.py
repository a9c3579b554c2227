"""Where the gateway listens: is the address free, is what protects it sound, can issuers be asked?"""

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.auth.fetching import FetchError, fetch_json
from leasehold.service.auth.issuers import TrustedIssuer
from leasehold.service.doctor.finding import Finding, note, ok, problem, warning
from leasehold.service.doctor.subject import Subject, is_open_to_others
from leasehold.service.serving import bound
from leasehold.service.tls import check_key_pair, valid_until

_SOON = timedelta(days=14)


def check_port(subject: Subject) -> list[Finding]:
    """Can the gateway listen where it should?"""
    service = subject.config.service
    where = f"{service.host} port {service.port}"
    try:
        bound(service.host, service.port).close()
    except InputError as error:
        return [_taken(subject, where, error)]
    return [ok(f"{where} is free")]


def _taken(subject: Subject, where: str, error: InputError) -> Finding:
    """Say who has it: this very gateway, which is as it should be, or somebody else."""
    if not _answers(subject.config.service.host, subject.config.service.port):
        return problem(str(error), "name another address with --host, or another port with --port")
    file = subject.place.address_file
    ours = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if ours.endswith(f":{subject.config.service.port}"):
        return ok(f"{where} is in use, and {ours} is where this gateway says that it listens")
    return problem(f"{where} is in use by somebody else", "name another port with --port, or in [service]")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def check_tls(subject: Subject) -> list[Finding]:
    """Are certificate and key a pair, valid for a while, and the key secret?"""
    service = subject.config.service
    if service.tls_certificate is None or service.tls_key is None:
        if service.behind_tls_proxy:
            return [note("the gateway itself speaks no TLS", "make sure that only the proxy can reach it")]
        return [ok("no TLS, and only this machine can reach it")]
    try:
        check_key_pair(service.tls_certificate, service.tls_key)
        return [_secrecy(service.tls_key), _validity(service.tls_certificate, datetime.now(UTC))]
    except InputError as error:
        return [problem(str(error), "name the right files in [service]: tls_certificate and tls_key")]


def _secrecy(key: Path) -> Finding:
    if is_open_to_others(key):
        return warning(f"{key} can be read by others", f"chmod 600 {key}")
    return ok(f"{key} is its owner's alone")


def _validity(certificate: Path, now: datetime) -> Finding:
    until = valid_until(certificate)
    text = f"{certificate} is valid until {until:%Y-%m-%d}"
    if until <= now:
        return problem(f"{certificate} was valid until {until:%Y-%m-%d}", "renew it, then restart the gateway")
    if until - now < _SOON:
        return warning(text, "renew it, then restart the gateway")
    return ok(text)


def check_issuers(subject: Subject) -> list[Finding]:
    """Can the keys be had of those whose tokens count here?"""
    return [_issuer(issuer) for issuer in subject.config.issuers]


def _issuer(issuer: TrustedIssuer) -> Finding:
    try:
        asyncio.run(fetch_json(issuer.discovery_url))
    except FetchError as error:
        cure = "check the network, and the url in [[issuer]]; until then its tokens do not count"
        return warning(f"{issuer.discovery_url}: {error}", cure)
    return ok(f"{issuer.discovery_url} answers")
