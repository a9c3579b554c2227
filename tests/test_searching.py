"""The same cases are tried everywhere: what is imported does not change them."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import PROFILE


def cases() -> list[int]:
    """What a test draws in this profile; most constants are within its range."""
    drawn: list[int] = []

    @given(st.integers(0, 100_000))
    @settings(max_examples=300)
    def draw(number: int) -> None:
        drawn.append(number)

    draw()
    return drawn


@pytest.mark.skipif(PROFILE == "explore", reason="this profile tries other cases each time")
def test_what_is_imported_changes_no_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cases()
    module = ModuleType("with_constants")
    module.__file__ = str(tmp_path / "with_constants.py")
    Path(module.__file__).write_text(f"NUMBERS = {list(range(1_000, 1_500))}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert cases() == before
