"""The page about matching has every reason with its sentence."""

import re
from pathlib import Path

from leasehold.matching.verdict import Why, sentence

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "matching.md"


def test_the_page_has_every_reason_with_its_sentence() -> None:
    written = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(written) == {why.value: sentence(why) for why in Why}
