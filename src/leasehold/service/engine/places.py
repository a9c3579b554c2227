"""Where attempts run, as the store keeps it: on which nodes, with which image, and why."""

import json
from functools import lru_cache
from typing import Any

from leasehold.jobs.job import Place
from leasehold.matching.assignment import Edge
from leasehold.matching.choice import Physical, Virtual
from leasehold.matching.images import Image, Recipe
from leasehold.matching.needs import Amounts
from leasehold.matching.software import Installed
from leasehold.matching.verdict import Why

Json = dict[str, Any]


def place_text(place: Place) -> str:
    """Write a place down."""
    told: Json = {"why": place.why.value}
    if isinstance(place, Physical):
        return json.dumps(told | {"nodes": place.nodes})
    made_of = "image" if isinstance(place.image, Image) else "recipe"
    told |= {"hosts": place.hosts, made_of: _told(place.image)}
    return json.dumps(told)


def place_of(text: str) -> Place:
    """Read what `place_text` wrote."""
    told = json.loads(text)
    why = Why(told["why"])
    if "nodes" in told:
        return Physical(_edges(told["nodes"]), why)
    image = image_of(told["image"]) if "image" in told else _recipe(told["recipe"])
    return Virtual(_edges(told["hosts"]), image, why)


def image_name(place: Place) -> str:
    """Name the image of a place's machines; empty where there are none, or it is not there yet."""
    if isinstance(place, Virtual) and isinstance(place.image, Image):
        return place.image.name
    return ""


@lru_cache(maxsize=1024)
def software_text(software: Installed) -> str:
    """Write down what is installed: the same on most nodes of a site, and kept once."""
    return json.dumps(sorted(software))


@lru_cache(maxsize=1024)
def software_of(text: str) -> Installed:
    """Read what is installed: the same on most nodes of a site."""
    return frozenset((name, version) for name, version in json.loads(text))


def image_of(told: Json) -> Image:
    """Read an image."""
    return Image(
        told["name"],
        frozenset(map(tuple, told["software"])),
        told["size_bytes"],
        Amounts(*told["needs"]),
        frozenset(told["at"]),
    )


def _told(image: Image | Recipe) -> Json:
    if isinstance(image, Recipe):
        base, packages = _told(image.base), sorted(image.packages)
        return {"base": base, "packages": packages, "build_ms": image.build_ms}
    needs = (image.needs.cores, image.needs.memory_mib, image.needs.disk_mib)
    return {
        "name": image.name,
        "software": sorted(image.software),
        "size_bytes": image.size_bytes,
        "needs": needs,
        "at": sorted(image.at),
    }


def _recipe(told: Json) -> Recipe:
    return Recipe(image_of(told["base"]), frozenset(map(tuple, told["packages"])), told["build_ms"])


def _edges(told: list[Any]) -> tuple[Edge, ...]:
    return tuple(Edge(*edge) for edge in told)
