"""Three gateways in a chain or a ring, as processes; the last one may have a site with a manager of its own."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Self

from tests.service.crash.federation import config
from tests.service.crash.served import PATIENCE, Line, Served
from tests.waiting import until

from leasehold.client import Client, PeerSpec, TokenSpec
from leasehold.gateway.peering import AskWhen
from leasehold.service.auth.principal import Role
from leasehold.service.config import Limits, ServiceConfig, SiteSpec

SOFTWARE = {"a": "", "b": "numpy 1.24.2", "c": "gcc 12.2", "far": "blast 2.14"}
SLOTS = {"a": 2, "b": 4, "c": 8, "far": 2}
CHAIN = (("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"))
RING = tuple(permutations("abc", 2))
LIMITS = Limits(requests_per_s=0, file_mib_per_consumer=100)


def configured(name: str, limits: Limits = LIMITS, site: SiteSpec | None = None) -> ServiceConfig:
    """One site; unless another is given, with one piece of software on each of its emulated nodes."""
    everybody = config("most-free")
    nodes = [{"count": SLOTS[name], "cores": 1, "software": [one for one in (SOFTWARE[name],) if one]}]
    place = site or SiteSpec(f"site-{name}" if name in "abc" else name, SLOTS[name], options={"nodes": nodes})
    return replace(everybody, clusters=(place,), jobs=replace(everybody.jobs, look_every_ms=200), limits=limits)


class Trio:
    """Gateways ``a``, ``b`` and ``c``, each the peer of others by the ways that are given."""

    def __init__(self, served: dict[str, Served], clients: dict[str, Client]) -> None:
        self.served = served
        self.clients = clients
        self.tokens: dict[tuple[str, str], str] = {}
        """By which of them made it, and for whom."""

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        ways: Sequence[tuple[str, str]] = CHAIN,
        *,
        hops: int = 2,
        manager_of: str = "",
        limits: Limits = LIMITS,
        sites: Mapping[str, SiteSpec] | None = None,
    ) -> Iterator[Self]:
        """Start them, and end them.

        ``manager_of``  which of them has the site ``far``, which decides for itself
        ``sites``       other sites of some
        """
        sites = sites or {}
        with ExitStack() as ends:
            served: dict[str, Served] = {}
            for name in "abc":
                served[name] = Served(configured(name, limits, sites.get(name)), folder / name)
                ends.callback(served[name].leave)
            for one in served.values():
                asyncio.run(one.ready())
            clients = {
                name: ends.enter_context(Client(one.url, one.token(), retry=PATIENCE)) for name, one in served.items()
            }
            if manager_of:
                spec = TokenSpec(consumer="far", roles=[Role.PEER], sites=["far"])
                token = clients[manager_of].tokens.create(spec).token
                line = Line(served[manager_of].url, token, "far")
                served["far"] = Served(configured("far", site=sites.get("far")), folder / "far", line)
                ends.callback(served["far"].leave)
                asyncio.run(served["far"].ready())
            trio = cls(served, clients)
            trio.agree(ways, hops)
            yield trio

    def agree(self, ways: Sequence[tuple[str, str]], hops: int) -> None:
        """Let each ask the other by these ways, for what none of its own sites can do."""
        for name, other in ways:
            spec = TokenSpec(consumer=f"peer/{other}", roles=[Role.PEER], sites=[other])
            self.tokens[name, other] = self.clients[name].tokens.create(spec).token
        for name, other in ways:
            terms = PeerSpec(
                url=self.served[other].url, token=self.tokens[other, name], ask=AskWhen.NONE_CAN, max_hops=hops
            )
            self.clients[name].peers.keep(other, terms)

    def knows(self, node: str, at: str = "a") -> bool:
        """Whether a gateway has heard of a node."""
        return any(one.name == node for one in self.clients[at].nodes.list())

    def await_node(self, node: str, at: str = "a") -> None:
        """Wait until a gateway has heard of a node."""
        until(lambda: self.knows(node, at))
