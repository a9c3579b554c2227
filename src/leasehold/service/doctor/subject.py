"""The gateway that is looked at: its configuration, and where its things are."""

from dataclasses import dataclass
from pathlib import Path

from leasehold.service.config import ServiceConfig
from leasehold.service.serving import Place


@dataclass(frozen=True, slots=True)
class Subject:
    """One gateway; ``config_file`` is None where it needs none."""

    config: ServiceConfig
    config_file: Path | None
    place: Place

    @property
    def store_url(self) -> str:
        """Where its store is."""
        return self.place.store_url(self.config.service)


def is_open_to_others(path: Path) -> bool:
    """Whether somebody else than its owner may read, write or enter this."""
    return bool(path.stat().st_mode & 0o077)
