"""Files that consumers store: inputs of jobs, and what jobs left behind."""

from typing import Annotated

from pydantic import Field, StringConstraints

from leasehold.protocol.base import A_MOMENT, RequestModel, ResponseModel, examples
from leasehold.protocol.fields import MAX_NAME, SHA256, FileName, Moment

MAX_FILE_BYTES = 2**50
PIECE_BYTES = 4 * 1024 * 1024
"""So much of a file is sent at once, at most."""

A_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""Of `test`, for examples."""
_FILE = {
    "sha256": A_HASH, "name": "sky.fits", "size_bytes": 4, "received_bytes": 4, "is_complete": True,
    "created_at": A_MOMENT,
}  # fmt: skip

Sha256 = Annotated[str, StringConstraints(strict=True, max_length=MAX_NAME, pattern=SHA256)]
"""The SHA-256 of a content, in 64 small hexadecimal digits."""


class FileSpec(RequestModel):
    """A file that is to be stored; its content follows in pieces."""

    model_config = examples({"sha256": A_HASH, "name": "sky.fits", "size_bytes": 4})

    sha256: Sha256 = Field(description="SHA-256 of its content.")
    name: FileName = Field(description="Its name, for display.")
    size_bytes: int = Field(strict=True, ge=0, le=MAX_FILE_BYTES, description="Size in bytes.")


class StoredFile(ResponseModel):
    """A file of a consumer."""

    model_config = examples(_FILE)

    sha256: str = Field(description="SHA-256 of its content.")
    name: str
    size_bytes: int
    received_bytes: int = Field(description="How much of it has arrived: where the next piece has to begin.")
    is_complete: bool = Field(description="Whether all of it is here, and has this hash.")
    created_at: Moment


class FileList(ResponseModel):
    """The files of the caller."""

    files: tuple[StoredFile, ...] = Field(description="By name.")
