"""The images that machines are built with,."""

from pydantic import Field

from leasehold.protocol.base import A_MOMENT, ResponseModel, examples
from leasehold.protocol.fields import AnyNumberOf, Moment, OrEmpty

_IMAGE = {
    "name": "debian", "site": "das3", "state": "there", "software": ["python3 3.13.5-1"], "packages": [],
    "size_bytes": 412_000_000, "least_memory_mib": 256, "problem": "", "since": A_MOMENT, "seen_at": A_MOMENT,
}  # fmt: skip


class Image(ResponseModel):
    """One image at a site, or one that is being built, or could not be."""

    model_config = examples(_IMAGE)

    name: str
    site: OrEmpty = Field(description="Where it is; empty: it is not there yet.")
    state: str = Field(description="`there`, `building` or `failed`.")
    software: AnyNumberOf[str] = Field(description="What is installed in it, with versions.")
    packages: AnyNumberOf[str] = Field(description="What is being built into it.")
    size_bytes: int = Field(description="How large it is.")
    least_memory_mib: int = Field(description="What its own system needs beside the job.")
    problem: OrEmpty = Field(description="Why it could not be built; empty: it could, or nobody has tried yet.")
    since: Moment = Field(description="Since when it stands so.")
    seen_at: Moment = Field(description="When it was seen last.")


class ImageList(ResponseModel):
    """All images, and those that are being built or could not be."""

    images: tuple[Image, ...] = Field(description="The images, by name.")
