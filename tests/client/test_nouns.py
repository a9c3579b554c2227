"""The client can ask for everything that there is."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import MagicMock

from leasehold.client import client
from leasehold.client.calls import Call, Pages
from leasehold.client.transport import Asking, Iterating, Noun
from leasehold.client.watching import PATH, Looks, Watch
from leasehold.protocol.agreements import SignatureSpec
from leasehold.protocol.coallocations import CoAllocationSpec, ComponentSpec
from leasehold.protocol.files import FileSpec
from leasehold.protocol.forecasts import WhatIfSpec
from leasehold.protocol.jobs import JobSpec
from leasehold.protocol.leases import LeaseSpec
from leasehold.protocol.peers import PeerSpec
from leasehold.protocol.tokens import Role, TokenSpec
from leasehold.protocol.usage import StatementQuery
from leasehold.service.api.app import create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.sharing.records import AgreementSide

SERVICE = MagicMock()  # its routes are only declared here

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Leases.submit": (LeaseSpec(vms=1, duration_s=1),),
    "Leases.plan": (LeaseSpec(vms=1, duration_s=1),),
    "Leases.extend": (42, 60),
    "Leases.list": (),
    "CoAllocations.submit": (CoAllocationSpec(components=[ComponentSpec(vms=1)], duration_s=1),),
    "CoAllocations.plan": (CoAllocationSpec(components=[ComponentSpec(vms=1)], duration_s=1),),
    "CoAllocations.list": (),
    "Jobs.submit": (JobSpec(command=["true"], execution_s=60),),
    "Jobs.plan": (JobSpec(command=["true"], execution_s=60),),
    "Jobs.list": (),
    "Jobs.read_file": (7, "out.dat", 0, 10),
    "Files.announce": (FileSpec(sha256="0" * 64, name="in.dat", size_bytes=1),),
    "Files.write": ("0" * 64, 0, b"1", 1),
    "Files.read": ("0" * 64, 0, 10),
    "Files.list": (),
    "Nodes.list": (),
    "Images.list": (),
    "Sites.list": (),
    "Peers.list": (),
    "Peers.keep": ("north", PeerSpec()),
    "Tokens.create": (TokenSpec(consumer="physics", roles=[Role.MEMBER]),),
    "Tokens.list": (),
    "Tokens.inspect": (),
    "Agreements.list": (),
    "Agreements.propose": ({"name": "atlas-at-das3"},),
    "Agreements.amend": ({"name": "atlas-at-das3"},),
    "Agreements.sign": ("atlas-at-das3", SignatureSpec(side=AgreementSide.PROVIDER, revision=1)),
    "Agreements.publish": ("atlas-at-das3",),
    "Agreements.penalties": (),
    "Accounts.used": (),
    "Accounts.statement": (StatementQuery(month="2026-10", consumer="atlas"),),
    "Forecasts.list": (),
    "Forecasts.calibration": (),
    "Forecasts.what_if": (WhatIfSpec(changes=[{"drain": "das3"}]),),
    "Forecasts.snapshot": (),
    "Activity.queue": (),
    "Activity.queued": (),
    "Activity.decisions": (),
    "Activity.timeline": (),
    "Accounts.balance": (),
    "Probes.alive": (),
    "Probes.why_not_ready": (),
}
"""What the methods take; the others take one number, or one name."""

BESIDE_CLIENTS = re.compile(r"/v1/sites/[^/]+/(messages|leases/.*)")
NOT_FOR_CLIENTS = {("GET", "/metrics")}
"""Nor are the messages between gateways and their sites, and the files that go beside them."""


def asked() -> Iterator[tuple[str, str]]:
    """Every request that a method makes."""
    for noun in Noun.__subclasses__():
        assert noun.__module__ == client.__name__
        for name, method in vars(noun).items():
            if isinstance(method, Asking | Iterating):
                made = method.make(MagicMock(), *ARGUMENTS.get(f"{noun.__name__}.{name}", ("42",)))
                match made:
                    case Watch():
                        yield "GET", PATH
                    case Pages() | Looks():
                        call = made.first if isinstance(made, Pages) else made.call
                        yield call.method, call.path
                    case Call():
                        yield made.method, made.path


@cache
def operations() -> frozenset[tuple[str, str]]:
    document = create_app(SERVICE, SERVICE, SERVICE, ApiSettings(version="0")).openapi()
    return frozenset((method.upper(), path) for path, item in document["paths"].items() for method in item)


def operation_of(method: str, path: str) -> tuple[str, str]:
    """Find the route for a path: the one with the fewest blanks."""
    found = [
        (word, template)
        for word, template in operations()
        if word == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
    ]
    return min(found, key=lambda operation: operation[1].count("{"))


def test_every_route_has_a_method() -> None:
    theirs = {(method, path) for method, path in operations() if not BESIDE_CLIENTS.fullmatch(path)}
    assert {operation_of(*one) for one in asked()} == theirs - NOT_FOR_CLIENTS
