"""Guests that name an image, simulated: they run only at clusters that have it."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.simulation.worlds import DAS2, busy

from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import validate
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario

IMAGES: dict[str, list[str]] = {"a": ["debian"], "b": ["cuda", "debian"]}


def with_images(images: dict[str, list[str]] = IMAGES, **stream: Any) -> Scenario:
    world = busy().to_dict()
    clusters = [{**one, "images": images.get(one["name"], [])} for one in world["cluster"]]
    return busy(cluster=clusters, stream=[*world["stream"][:2], {"name": "guests", **DAS2, "h": 4.0, **stream}])


def played(scenario: Scenario, folder: Path) -> Run:
    run = load(run_scenario(scenario, folder / "run", check=True).path)
    assert validate(run) == []
    return run


@pytest.mark.parametrize(("image", "sites"), [("cuda", {"b"}), ("debian", {"a", "b"})])
def test_they_run_only_where_it_is(tmp_path: Path, image: str, sites: set[str]) -> None:
    guests = played(with_images(image=image), tmp_path).leases.filter(origin="external")
    ran = guests.filter(pl.col("first_start_ms").is_not_null())
    assert set(ran["site"]) == sites
    wider_than_b = guests.filter(pl.col("vms") > 8)
    assert len(wider_than_b) > 0
    assert ("no-such-image" in set(wider_than_b["reason"])) == (image == "cuda")


def test_so_do_components_that_run_together(tmp_path: Path) -> None:
    together = {"share": 1.0, "components": 2, "claim": "reservation"}
    guests = played(with_images(image="cuda", together=together), tmp_path).leases.filter(origin="external")
    assert set(guests.filter(pl.col("first_start_ms").is_not_null())["site"]) == {"b"}


def test_a_scenario_says_again_what_it_was_read_from() -> None:
    scenario = with_images(image="cuda")
    assert scenario_from_dict(scenario.to_dict()) == scenario


@pytest.mark.parametrize(
    ("images", "stream", "error", "text"),
    [
        (IMAGES, {"image": "debain"}, UnknownName, r"image: got 'debain', expected one of cuda, debian \(did you mean"),
        ({}, {"image": "cuda"}, InvalidField, "image: got 'cuda', expected none: no cluster has images"),
        (IMAGES, {"image": "cuda", "site": "b"}, InvalidField, "image: got 'cuda', expected requests from outside"),
        (IMAGES, {"image": "a b"}, InvalidField, "image: got 'a b', expected a name of letters"),
        ({"a": ["a/b"]}, {}, InvalidField, "images: got 'a/b', expected a name of letters"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(
    images: dict[str, list[str]], stream: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        with_images(images, **stream)
