"""A house in which jobs run: two nodes at das3, which have a gcc, and a larger one at lyon, a host."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio import fail_after
from tests.service.api.house import PATIENCE_S, SETTINGS, House, house_in

from leasehold.service.commands import JobImagesSeen, JobNodesSeen
from leasehold.service.config import JobsSpec, ServiceConfig, SiteSpec
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts

CONFIG = ServiceConfig(
    clusters=(
        SiteSpec("das3", 8, options={"nodes": [{"software": ["gcc 12.2.0"], "count": 2}]}),
        SiteSpec("lyon", 8, options={"nodes": [{"memory_mib": 65_536}]}),
    ),
    jobs=JobsSpec(look_every_ms=3_600_000),
)
HOST = NodeFacts(
    name="n1", cores=4, memory_mib=65_536, disk_mib=100_000, free_cores=4, free_memory_mib=65_536,
    free_disk_mib=100_000, cpu_mhz=2400, is_host=True,
)  # fmt: skip
"""The node of lyon, as one on which machines can be built; emulated sites have none."""

DEBIAN = ImageFacts(name="debian", software=frozenset({("python3", "3.13.5")}), size_bytes=10**8, least_memory_mib=256)
BUILDABLE = Buildable("debian", frozenset({("python3-numpy", "1:1.26.4-3")}))


@contextmanager
def furnished(folder: Path) -> Iterator[House]:
    """Build a house with two nodes at das3, which have a gcc, and a larger one at lyon, a host, too."""
    with house_in(folder, SETTINGS, CONFIG) as house:
        house.wait_for_nodes(len(CONFIG.clusters))
        for command in (JobNodesSeen("lyon", (HOST,)), JobImagesSeen("lyon", (DEBIAN,), BUILDABLE)):
            house.portal.call(house.federation.do, command)
        yield house


def asked(**said: Any) -> dict[str, Any]:
    return {"command": ["true"], "execution_s": 60} | said


def submit(house: House, token: str, **said: Any) -> dict[str, Any]:
    answer = house.ask("POST", "/v1/jobs", token, json=asked(**said))
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


def over(house: House, token: str, job_id: int) -> dict[str, Any]:
    """Wait until a job is over."""
    house.portal.call(_is_over, house, job_id)
    job: dict[str, Any] = house.ask("GET", f"/v1/jobs/{job_id}", token).json()
    return job


async def _is_over(house: House, job_id: int) -> None:
    with fail_after(PATIENCE_S):
        while (seq := house.federation.feed.last_seq) and not await _has_ended(house, job_id):
            await house.federation.feed.wait(seq)


async def _has_ended(house: House, job_id: int) -> bool:
    row, _ = await house.federation.jobs.job(job_id)
    return row.record.state.is_final
