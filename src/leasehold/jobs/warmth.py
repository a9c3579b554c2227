"""Where does a machine with an image still run, so that the next job that needs the same boots none?"""

from collections.abc import Mapping
from typing import Any

from leasehold.jobs.job import Attempt
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import Physical


class Warmth:
    """Hosts that had a machine with an image at work a short while ago."""

    def __init__(self, settings: JobSettings) -> None:
        self._lasts_ms = settings.warm_for_ms
        self._until_ms: dict[str, dict[str, int]] = {}

    def leave(self, attempt: Attempt, now_ms: int) -> None:
        """Note that an attempt is done and its machines may be kept."""
        if not isinstance(attempt.place, Physical) and self._lasts_ms:
            hosts = self._until_ms.setdefault(attempt.place.image_name, {})
            hosts |= dict.fromkeys(attempt.nodes, now_ms + self._lasts_ms)

    def hosts(self, image: str, now_ms: int) -> frozenset[str]:
        """List the hosts where a machine with an image is thought to be warm."""
        hosts = self._until_ms.get(image, {})
        return frozenset(host for host, until_ms in hosts.items() if until_ms > now_ms)

    def memory(self) -> dict[str, Any]:
        """Give what is thought to be warm, as plain JSON."""
        return {image: dict(hosts) for image, hosts in sorted(self._until_ms.items())}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what was kept."""
        self._until_ms |= {image: dict(hosts) for image, hosts in memory.items()}
