"""The example of the page about OpenNebula can be used."""

import re
import tomllib
from pathlib import Path

from leasehold.service.config_file import config_from_dict

PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "opennebula.md"


def test_its_example_is_accepted() -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert config_from_dict(tomllib.loads(example)).clusters[0].driver == "opennebula"
