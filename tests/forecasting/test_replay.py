"""A snapshot and the events that followed it replay to the bit, and files that are not whole say so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.forecasting.worlds import AGREED, Story, recorded, stories, terms
from tests.searching import examples

from leasehold.forecasting.file import Instant, Recording, read, same, snapshot_bytes, write
from leasehold.forecasting.replay import Names, anonymised, replay
from leasehold.model.errors import InputError
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob


@given(stories())
def test_what_followed_a_snapshot_is_decided_again_to_the_bit(story: Story) -> None:
    recording = recorded(story)
    outcome = replay(recording)
    assert outcome.difference is None, outcome.difference
    assert outcome.instants == len(recording.instants)
    assert outcome.effects == sum(len(instant.effects) for instant in recording.instants)


@settings(max_examples=examples(20))
@given(stories())
def test_with_other_names_the_same_is_decided(story: Story) -> None:
    recording = recorded(story)
    other = anonymised(recording)
    assert replay(other).difference is None
    text = snapshot_bytes(other.snapshot).decode() + json.dumps([one.events + one.effects for one in other.instants])
    for name in ("alpha", "beta", "gamma", "west", "physics", "climate", "dee", "ada"):
        assert text.find(f'"{name}"') < 0  # as a number: pytest would explain a text of 100 kB
        assert text.find(f"{name}/") < 0
    assert [one.at_ms for one in other.instants] == [one.at_ms for one in recording.instants]


def _busy() -> Recording:
    jobs = [
        WorkloadJob(1000 * at, 3, 9000, 9000, "ada", lease_type=LeaseType.SUSPENDABLE, group="physics")
        for at in range(6)
    ]
    jobs += [WorkloadJob(7000 + 1000 * at, 4, 5000, 5000, "own", site="alpha") for at in range(3)]
    return recorded(Story(terms("rr", "conservative", AGREED), tuple(jobs), 4))


def test_a_decision_that_was_changed_is_found() -> None:
    recording = _busy()
    index = next(n for n, one in enumerate(recording.instants) if one.effects)
    instant = recording.instants[index]
    lied = [{**instant.effects[0], "rule": "chance"}, *instant.effects[1:]]
    instants = list(recording.instants)
    instants[index] = Instant(instant.at_ms, instant.events, tuple(lied))
    outcome = replay(Recording(recording.snapshot, tuple(instants)))
    assert outcome.difference is not None
    assert (outcome.difference.index, outcome.difference.recorded) == (index, lied[0])


def test_a_lease_that_was_changed_in_the_snapshot_changes_what_is_decided() -> None:
    recording = _busy()
    first, *rest = recording.snapshot.leases
    shorter = replace(first, vms=first.vms + 1)
    outcome = replay(replace(recording, snapshot=replace(recording.snapshot, leases=(shorter, *rest))))
    assert outcome.difference is not None


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_file_gives_back_what_was_written(tmp_path: Path, name: str) -> None:
    recording = _busy()
    write(tmp_path / name, recording)
    found = read(tmp_path / name)
    assert snapshot_bytes(found.snapshot) == snapshot_bytes(recording.snapshot)
    assert [one.events for one in found.instants] == [one.events for one in recording.instants]
    assert all(same(a.effects, b.effects) for a, b in zip(found.instants, recording.instants, strict=True))
    write(tmp_path / f"again-{name}", found)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()


def _with_line(path: Path, number: int, line: str) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number - 1] = line
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    write(good, _busy())
    text = good.read_text(encoding="utf-8").splitlines()
    cases = {
        1: ('{"format": "other"}', "not a snapshot"),
        2: (text[1][:-2], "SHA-256"),
        3: ('{"at_ms": 1}', "not an instant"),
        4: (
            '{"at_ms": 1, "told": [], "events": [{"event": "Tick", "site": 3}], "effects": []}',
            "event: site: input should be",
        ),
        5: ('{"at_ms": 1, "told": [], "events": [{"event": "Exec"}], "effects": []}', "not an instant"),
        6: (
            '{"at_ms": 1, "told": [{"told": "ProviderLeft", "name": 3}], "events": [], "effects": []}',
            "told: name: input should be",
        ),
    }
    for number, (line, problem) in cases.items():
        bad = tmp_path / f"bad-{number}.json"
        bad.write_text(good.read_text(encoding="utf-8"), encoding="utf-8")
        _with_line(bad, number, line)
        with pytest.raises(InputError) as found:
            read(bad)
        assert str(found.value).startswith(f"{bad}:{number}: {problem}") or problem in str(found.value)
        assert "\n" not in str(found.value)
    header = json.loads(text[0])
    _with_line(good, 1, json.dumps(header | {"version": 99}))
    with pytest.raises(InputError, match="version 99 of the format, expected 2"):
        read(good)


def test_every_byte_of_a_compressed_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "s.json.gz"
    write(path, _busy())
    data = path.read_bytes()
    for cut in range(0, len(data), 97):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError):
            read(path)


def test_new_names_keep_the_order_of_the_old_ones() -> None:
    names = Names(["c", "a", "bb", "*", ""])
    assert sorted(["c", "a", "bb"], key=names.of) == ["a", "bb", "c"]
    assert names.of("a/c") == f"{names.of('a')}/{names.of('c')}"
    assert (names.of("*"), names.of("running")) == ("*", "running")
