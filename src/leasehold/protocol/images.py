"""Images of virtual machines."""

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Moment, OrEmpty

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
