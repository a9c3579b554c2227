"""The page about clouds says what can be said to a site in one."""

import re
import tomllib
from pathlib import Path

from leasehold.service.config_file import config_from_dict
from leasehold.service.enactors.ec2.options import read_options

PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "clouds.md"


def test_the_page_has_every_option_with_what_is_usual() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    least = {"region": "x", "image": "x", "instance_type": "x"}
    assert {key for key, usual in rows.items() if usual == "must be there"} == least.keys()
    known = set(read_options(least).__slots__) - {"habits"} | {"poll_s", "boot_within_s"}
    assert rows.keys() == known
    said = "\n".join(f"{key} = {usual[1:-1]}" for key, usual in rows.items() if usual.startswith("`"))
    assert read_options(least | tomllib.loads(said)) == read_options(least)


def test_its_example_is_accepted() -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert config_from_dict(tomllib.loads(example)).clusters[0].enactor == "ec2"
