"""The nodes that jobs run on, as last seen, and the images of their virtual machines."""

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, NextPage, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Cursor, Moment, Name, OrEmpty, OrFalse, OrNone, OrZero, PageSize
from leasehold.protocol.jobs import SoftwareText

_NODE = {
    "name": "das3/node017", "site": "das3", "cores": 8, "free_cores": 6, "memory_mib": 16_384,
    "free_memory_mib": 12_288, "disk_mib": 200_000, "free_disk_mib": 180_000, "cpu_mhz": 2400,
    "gpus": 4, "gpu_shares": 4, "free_gpus": [1, 1, 0.5, 0], "gpu_model": "a100",
    "bytes_per_s": 125_000_000, "software": ["gcc 12.2.0-14"], "packages": 1, "is_host": False, "runs": True,
    "takes_files": True, "problem": "", "fault": "", "failures": 1, "failed_at": A_MOMENT, "first_seen_at": A_MOMENT,
    "seen_at": A_MOMENT,
}  # fmt: skip


class NodeFilter(RequestModel):
    """A filter for nodes."""

    site: Name | None = Field(default=None, description="At this site.")
    software: list[SoftwareText] = Field(
        default=[], max_length=20, description="With all of this software, with constraints: `gcc >= 12`."
    )
    brief: bool = Field(default=False, description="Whether to leave out the installed software.")
    limit: PageSize = 100
    cursor: Cursor = None


class Node(ResponseModel):
    """One node as last seen."""

    model_config = examples(_NODE)

    name: str
    site: str
    cores: int = Field(description="Number of cores.")
    free_cores: int = Field(description="Number of unused cores.")
    memory_mib: int
    free_memory_mib: int = Field(description="Unused memory.")
    disk_mib: int = Field(description="Size of its disk.")
    free_disk_mib: int = Field(description="Unused disk space.")
    cpu_mhz: OrZero = Field(description="Clock rate of its cores; 0: not known.")
    gpus: OrZero = Field(description="Number of GPUs that it lends.")
    gpu_shares: OrZero = Field(
        description="In how many parts each of them can be lent; 1: half of one takes it whole; 0: only whole ones."
    )
    free_gpus: AnyNumberOf[float] = Field(description="What is unused of each GPU, the most first: 1 is a whole one.")
    gpu_model: OrEmpty = Field(description="Model of its GPUs; empty: it lends none.")
    bytes_per_s: OrZero = Field(description="Network bandwidth; 0: not known.")
    software: AnyNumberOf[str] = Field(description="Installed software, with versions; empty in a brief list.")
    packages: OrZero = Field(description="Number of installed pieces of software.")
    is_host: OrFalse = Field(description="Whether it can host virtual machines.")
    runs: bool = Field(description="Whether jobs can run directly on it.")
    takes_files: bool = Field(description="Whether jobs with files can run on it.")
    problem: OrEmpty = Field(description="Why it cannot be used now; empty: no known problem.")
    fault: OrEmpty = Field(description="The kind of fault the problem counts as; empty: none.")
    failures: OrZero = Field(description="Failures since it was first seen.")
    failed_at: OrNone[Moment] = Field(description="When it last failed.")
    first_seen_at: Moment = Field(description="When it was first seen.")
    seen_at: Moment = Field(description="When it was last seen.")


class NodePage(NextPage):
    """A page of nodes, by name."""

    nodes: tuple[Node, ...] = Field(description="The nodes.")


_IMAGE = {
    "name": "debian", "site": "das3", "state": "there", "software": ["python3 3.13.5-1"], "packages": [],
    "size_bytes": 412_000_000, "least_memory_mib": 256, "problem": "", "since": A_MOMENT, "seen_at": A_MOMENT,
}  # fmt: skip


class Image(ResponseModel):
    """One image: present at a site, being built, or failed to build."""

    model_config = examples(_IMAGE)

    name: str
    site: OrEmpty = Field(description="The site that has it; empty: not built yet.")
    state: str = Field(description="`there`, `building` or `failed`.")
    software: AnyNumberOf[str] = Field(description="Installed software, with versions.")
    packages: AnyNumberOf[str] = Field(description="Packages being installed by the build.")
    size_bytes: int = Field(description="Size in bytes.")
    least_memory_mib: int = Field(description="Memory its operating system needs in addition to the job's.")
    problem: OrEmpty = Field(description="Why the build failed; empty: it has not failed.")
    since: Moment = Field(description="When it entered its present state.")
    seen_at: Moment = Field(description="When it was last seen.")


class ImageList(ResponseModel):
    """All images, including those being built and failed builds."""

    images: tuple[Image, ...] = Field(description="The images, by name.")
