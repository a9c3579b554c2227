"""Results of earlier code: taken over where a sample comes out the same, and else made again."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli.reproducing import Manner, measure
from leasehold.experiments.campaign import sample
from leasehold.experiments.kept import Kept

BEFORE, NOW = {"one": "a", "two": "b"}, {"one": "c", "two": "d"}
SEEDS = range(1, 21)


def before(name: str, seed: int) -> Mapping[str, float]:
    return {"value": len(name) * 1000 + seed / 7, "none": nan}


class Code:
    """The code as it is now: it remembers what it made, and may make something else of one run."""

    def __init__(self, other: tuple[str, int] | None = None) -> None:
        self.made: list[tuple[str, int]] = []
        self.other = other

    def __call__(self, name: str, seed: int) -> Mapping[str, float]:
        self.made.append((name, seed))
        found = before(name, seed)
        return {**found, "value": found["value"] * (1 + 2**-52)} if (name, seed) == self.other else found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What earlier code has measured."""
    measure(before, dict.fromkeys(BEFORE, SEEDS), Kept(tmp_path, BEFORE), Manner(jobs=1, silent=True))
    return tmp_path


def footnote(kept: Kept, seeds: Sequence[int] = SEEDS, names: Iterable[str] = BEFORE) -> str:
    """What a report says at its end that is made of these seeds of all configurations."""
    return kept.footnote(dict.fromkeys(names, seeds))


def go_on(folder: Path, code: Code, recheck: int | None) -> Kept:
    kept = Kept(folder, NOW)
    code.made.clear()
    measure(code, dict.fromkeys(NOW, SEEDS), kept, Manner(jobs=1, silent=True, recheck=recheck))
    return kept


def test_what_comes_out_the_same_is_taken_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = Code()
    kept = go_on(folder, code, recheck=2)
    assert sorted(code.made) == [("one", 6), ("one", 16), ("two", 6), ("two", 16)]
    assert "4 runs made again, all the same; 40 of earlier code taken over" in capsys.readouterr().err
    again = kept.results(dict.fromkeys(NOW, SEEDS))
    assert [again[name]["value"] for name in NOW] == [[before(name, seed)["value"] for seed in SEEDS] for name in NOW]


def test_a_report_says_that_they_were(folder: Path) -> None:
    assert footnote(Kept(folder, BEFORE)) == ""
    assert "40 of 40 runs were made by earlier code" in footnote(go_on(folder, Code(), recheck=1))
    assert "40 of 40 runs were made by earlier code" in footnote(Kept(folder, NOW))


def test_and_says_so_of_the_runs_that_it_is_made_of(folder: Path) -> None:
    kept = go_on(folder, Code(), recheck=1)
    assert "10 of 10 runs were made by earlier code" in footnote(kept, range(1, 6))


def test_one_that_differs_in_its_last_bit_and_nothing_is_taken_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = Code(other=("two", 16))
    kept = go_on(folder, code, recheck=2)
    assert len(code.made) == 4 + 40
    said = capsys.readouterr().err
    assert "two, seed 16: value was 3002.28" in said
    assert "no results are reused" in said
    assert kept.of("two")[16]["value"] != before("two", 16)["value"]
    assert footnote(kept) == ""


def test_who_does_not_ask_for_it_makes_all_of_them_again(folder: Path) -> None:
    code = Code()
    assert footnote(go_on(folder, code, recheck=None)) == ""
    assert len(code.made) == 40


def test_what_was_taken_over_is_there_the_next_time(folder: Path) -> None:
    go_on(folder, Code(), recheck=1)
    code = Code()
    go_on(folder, code, recheck=1)
    assert code.made == []


def test_what_is_newer_stays(folder: Path) -> None:
    kept = Kept(folder, NOW)
    kept.add("one", {3: {"value": -1.0, "none": nan}})
    assert Kept(folder, NOW).earlier("one") == {}  # the file has been replaced as a whole
    kept.take_over("one")
    assert kept.of("one")[3]["value"] == -1.0
    assert len(kept.of("one")) == 20
    assert "19 of 20 runs" in footnote(Kept(folder, {"one": "c"}), names=["one"])


@given(st.integers(1, 50), st.integers(1, 60))
def test_a_sample_is_spread_over_what_is_there(there: int, count: int) -> None:
    kept = Kept(None, {"one": "a"})
    kept._earlier["one"] = {seed: {} for seed in range(there)}
    (task,) = sample(kept, ["one"], count)
    assert len(set(task.seeds)) == len(task.seeds) == min(there, count)
    gaps = [b - a for a, b in zip(task.seeds, task.seeds[1:], strict=False)]
    assert not gaps or max(gaps) - min(gaps) <= 1
