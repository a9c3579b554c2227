"""Many runs: the same results with any number of workers, and none of them twice."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from leasehold.experiments.campaign import TRIED, WORTH_TRYING, CampaignProgress, Task, carry_out, estimate_s, tasks
from leasehold.experiments.kept import Kept

MARKS = {"one": "a", "two": "b"}
SEEDS = range(1, 13)


def measure(name: str, seed: int) -> Mapping[str, float]:
    """What is measured here."""
    return {"value": len(name) * 1000 + seed / 7}


def results(kept: Kept) -> dict[str, dict[int, Mapping[str, float]]]:
    return {name: dict(sorted(kept.of(name).items())) for name in MARKS}


def run(folder: Path | None, workers: int, seeds: range = SEEDS) -> tuple[Kept, list[CampaignProgress]]:
    kept, told = Kept(folder, MARKS), list[CampaignProgress]()
    carry_out(tasks(dict.fromkeys(MARKS, seeds), kept), measure, kept, workers, told.append)
    return kept, told


def test_results_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    alone, _ = run(tmp_path / "alone", 1)
    shared, _ = run(tmp_path / "shared", 2)
    assert results(alone) == results(shared)
    for name in MARKS:
        assert alone.table(name).equals(shared.table(name))


def test_progress_counts_runs_up_to_all_of_them() -> None:
    _, told = run(None, 1)
    assert [progress.done for progress in told] == [5, 10, 12, 17, 22, 24]
    assert {progress.total for progress in told} == {24}
    assert told[-1].left_s == 0


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    run(tmp_path, 1, range(1, 6))
    assert tasks(dict.fromkeys(MARKS, SEEDS), Kept(tmp_path, MARKS)) == [
        Task("one", (6, 7, 8, 9, 10)),
        Task("one", (11, 12)),
        Task("two", (6, 7, 8, 9, 10)),
        Task("two", (11, 12)),
    ]
    again, _ = run(tmp_path, 1)
    assert results(again) == results(run(None, 1)[0])


def test_what_other_code_has_made_is_done_again(tmp_path: Path) -> None:
    run(tmp_path, 1)
    kept = Kept(tmp_path, {**MARKS, "two": "changed"})
    assert {task.name for task in tasks(dict.fromkeys(MARKS, SEEDS), kept)} == {"two"}


def test_one_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    def stopping(name: str, seed: int) -> Mapping[str, float]:
        if (name, seed) == ("two", 3):
            raise KeyboardInterrupt
        return measure(name, seed)

    kept = Kept(tmp_path, MARKS)
    with pytest.raises(KeyboardInterrupt):
        carry_out(tasks(dict.fromkeys(MARKS, SEEDS), kept), stopping, kept, 1, lambda _: None)
    todo = tasks(dict.fromkeys(MARKS, SEEDS), Kept(tmp_path, MARKS))
    assert {task.name for task in todo} == {"two"}
    assert results(run(tmp_path, 1)[0]) == results(run(None, 1)[0])


def test_how_long_it_takes_is_tried_only_where_that_is_little_of_the_work() -> None:
    """One run of an evaluation may take an hour: of three runs none is made for nothing."""
    tried: list[tuple[str, int]] = []

    def watched(name: str, seed: int) -> Mapping[str, float]:
        tried.append((name, seed))
        return measure(name, seed)

    assert estimate_s([], watched, 2) is None
    assert estimate_s([Task("one", tuple(range(WORTH_TRYING - 1)))], watched, 2) is None
    assert not tried
    about_s = estimate_s([Task("one", tuple(range(WORTH_TRYING)))], watched, 2)
    assert about_s is not None
    assert about_s >= 0
    assert len(tried) == TRIED
