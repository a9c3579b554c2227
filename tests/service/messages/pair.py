"""A gateway and the manager of a site beside it, as processes."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from tests.service.crash.federation import config
from tests.service.crash.served import PATIENCE, Line, Served
from tests.waiting import until

from leasehold.client import Client, JobSpec, TokenSpec
from leasehold.client.files import upload
from leasehold.protocol.jobs import Job
from leasehold.service.auth.principal import Role
from leasehold.service.config import Limits, ServiceConfig, SiteSpec

LARGE_MIB = 65_536
"""Of memory: so much is only beside the manager."""

LIMITS = Limits(requests_per_s=0, file_mib_per_consumer=100)
OVER = ("completed", "failed", "refused", "cancelled", "expired")


def configured(site: str, memory_mib: int) -> ServiceConfig:
    everybody = config("most-free")
    place = SiteSpec(site, 4, options={"nodes": [{"count": 2, "memory_mib": memory_mib}]})
    jobs = replace(everybody.jobs, look_every_ms=200)
    return replace(everybody, clusters=(place,), jobs=jobs, limits=LIMITS)


class Pair:
    """A gateway whose own site has only small nodes, so that jobs run beside the manager."""

    def __init__(self, gateway: Served, client: Client, manager: Served, site_token: str) -> None:
        self.gateway = gateway
        self.client = client
        self.manager = manager
        self.site_token = site_token
        self.folder = manager.place.work

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[Self]:
        with ExitStack() as ends:
            gateway = Served(configured("near", 1_024), folder / "gateway")
            ends.callback(gateway.leave)
            asyncio.run(gateway.ready())
            client = ends.enter_context(Client(gateway.url, gateway.token(), retry=PATIENCE))
            spec = TokenSpec(consumer="far", roles=[Role.PEER], sites=["far"])
            token = client.tokens.create(spec).token
            manager = Served(configured("far", LARGE_MIB), folder / "far", Line(gateway.url, token, "far"))
            ends.callback(manager.leave)
            asyncio.run(manager.ready())
            until(lambda: any(node.memory_mib == LARGE_MIB for node in client.nodes.list()))
            yield cls(gateway, client, manager, token)

    def submit(self, content: bytes, folder: Path, *command: str, output: str = "copy.dat") -> Job:
        path = folder / "sky.dat"
        path.write_bytes(content)
        stored = upload(self.client, path)
        spec = JobSpec.of(
            command=list(command) or ["cp", "sky.dat", output],
            inputs=[{"name": "sky.dat", "sha256": stored.sha256, "size_bytes": stored.size_bytes}],
            outputs=[output],
            memory_mib=LARGE_MIB,
            execution_s=60,
        )
        return self.client.jobs.submit(spec)

    def wait_for(self, job: Job) -> Job:
        until(lambda: self.client.jobs.get(job.id).state in OVER)
        return self.client.jobs.get(job.id)
