"""The images that machines are built with, on the wire."""

from pydantic import Field

from leasehold.matching.software import Installed
from leasehold.service.api.models.base import A_MOMENT, Shown, examples
from leasehold.service.api.moments import show_moment
from leasehold.service.store.rows import ImageRow

_IMAGE = {
    "name": "debian", "site": "das3", "state": "there", "software": ["python3 3.13.5-1"], "packages": [],
    "size_bytes": 412_000_000, "least_memory_mib": 256, "problem": "", "since": A_MOMENT, "seen_at": A_MOMENT,
}  # fmt: skip


class Image(Shown):
    """One image at a site, or one that is being built, or could not be."""

    model_config = examples(_IMAGE)

    name: str
    site: str = Field(description="Where it is; empty: it is not there yet.")
    state: str = Field(description="`there`, `building` or `failed`.")
    software: list[str] = Field(description="What is installed in it, with versions.")
    packages: list[str] = Field(description="What is being built into it.")
    size_bytes: int = Field(description="How large it is.")
    least_memory_mib: int = Field(description="What its own system needs beside the job.")
    problem: str = Field(description="Why it could not be built; empty: it could, or nobody has tried yet.")
    since: str = Field(description="Since when it stands so.")
    seen_at: str = Field(description="When it was seen last.")


class ImageList(Shown):
    """All images, and those that are being built or could not be."""

    images: list[Image] = Field(description="The images, by name.")


def show_image(row: ImageRow) -> Image:
    """Show an image as it is in the store."""
    return Image(
        name=row.name,
        site=row.site,
        state=row.state,
        software=_with_versions(row.software),
        packages=_with_versions(row.packages),
        size_bytes=row.size_bytes,
        least_memory_mib=row.least_memory_mib,
        problem=row.problem,
        since=show_moment(row.since_ms),
        seen_at=show_moment(row.seen_ms),
    )


def _with_versions(software: Installed) -> list[str]:
    return sorted(f"{name} {version}".rstrip() for name, version in software)
