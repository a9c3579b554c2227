"""The reference of agreements names every key, and its examples are agreements."""

import re
from pathlib import Path

import pytest

from leasehold.configuration.agreements import LIMITS, agreement_schema, load_document

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "agreements.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^```toml (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
TABLES = " ".join(re.findall(r"^\| (.*)$", TEXT, re.MULTILINE))
NAMED = set(re.findall(r"`(\w+)`", TABLES + TEXT.split("## Kinds of limits")[1]))


@pytest.mark.parametrize("table", ["agreement", "domain", "sharing"])
def test_every_key_is_on_the_page(table: str) -> None:
    keys = set(agreement_schema()["$defs"][table]["properties"]) - {"normalise"}
    assert keys <= NAMED
    assert "`normalise = true`" in TEXT


def test_every_kind_is_on_the_page() -> None:
    assert all(f'`"{kind}"`' in TABLES for kind in LIMITS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(EXAMPLES[name], encoding="utf-8")
    assert load_document(tmp_path / name).agreements
