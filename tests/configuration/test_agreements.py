"""Agreements in TOML: every key is checked, what is wrong has its line, what is written reads as the same.

What the reader takes, the schema takes; what is wrong in shape, both refuse.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator, meta

from leasehold.configuration.agreements import (
    AgreementDocument,
    agreement_from_dict,
    agreement_schema,
    agreement_to_dict,
    load_document,
    read_document,
)
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import SHARING, DomainSpec, SharingSpec
from leasehold.configuration.times import UNIX_TIME, RunTime
from leasehold.configuration.toml import to_toml
from leasehold.model.agreement import (
    MILLION,
    Agreement,
    Commitment,
    DailyHours,
    Limit,
    NoLimit,
    Rules,
    TimeDecay,
    UsageDecay,
)
from leasehold.model.errors import InputError, InvalidField

SCHEMA = Draft202012Validator(agreement_schema())

# --- every agreement that there can be --------------------------------------------------------------------

SHARES = st.integers(0, MILLION)
DURATIONS = st.integers(1, 10**12)
WINDOWS = st.integers(1_000, 10**10)
MOMENTS = st.integers(-(10**13), 10**13)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True)
PARTS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"], exclude_characters="/@*"), min_size=1)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
LIMITS: st.SearchStrategy[Limit] = st.one_of(
    st.builds(NoLimit),
    st.builds(Commitment, SHARES, WINDOWS, SHARES, WINDOWS),
    st.builds(TimeDecay, SHARES, WINDOWS, st.lists(SHARES, min_size=1, max_size=5).map(tuple), st.booleans()),
    st.builds(
        UsageDecay,
        SHARES,
        WINDOWS,
        st.integers(1, 10),
        st.dictionaries(SHARES, SHARES, min_size=1, max_size=5).map(
            lambda steps: tuple(sorted(steps.items(), reverse=True))
        ),
        st.booleans(),
    ),
)
MINUTES = st.tuples(st.integers(0, 1439), st.integers(0, 1440)).filter(lambda hours: hours[0] != hours[1])
HOURS = st.builds(
    lambda pair, zone: DailyHours(pair[0], pair[1], zone), MINUTES, st.sampled_from(["UTC", "Europe/Paris"])
)
RULES = st.one_of(
    st.builds(Rules, st.none(), st.none(), st.none() | SHARES, st.none() | DURATIONS),
    st.builds(Rules, DURATIONS, st.none() | HOURS, st.none() | SHARES, st.none() | DURATIONS),
)


@st.composite
def agreements(draw: st.DrawFn) -> Agreement:
    begin_ms, end_ms = draw(st.none() | MOMENTS), draw(st.none() | MOMENTS)
    if begin_ms is not None and end_ms is not None and end_ms <= begin_ms:
        begin_ms, end_ms = end_ms, begin_ms + 1
    name, parent = draw(NAMES), draw(st.just("") | NAMES)
    parent = "" if parent == name else parent
    return Agreement(
        name=name,
        provider=draw(PARTS | st.just("*")),
        consumer=draw(PATHS | PARTS.map("@{}".format) | st.just("@das3")),
        limit=draw(LIMITS),
        resource=draw(st.sampled_from(["cpus", "memory_mib", "licence:matlab", "service:data-base.1"])),
        lending_limit=draw(st.none() | st.integers(0, 10**6)),
        rules=draw(RULES),
        begin_ms=begin_ms,
        end_ms=end_ms,
        priority=draw(st.integers(0, 100)),
        penalty=draw(st.integers(0, 200)),
        penalty_ms=draw(st.none() | DURATIONS),
        parent=parent,
        relative=bool(parent) and draw(st.booleans()),
    )


@given(agreements())
def test_what_is_written_reads_as_the_same_and_is_json(agreement: Agreement) -> None:
    values = agreement_to_dict(agreement)
    assert agreement_from_dict(json.loads(json.dumps(values))) == agreement


@given(agreements())
def test_what_is_written_for_a_run_reads_as_the_same(agreement: Agreement) -> None:
    clock = RunTime(starts_at_ms=1_700_000_000_000)
    values = agreement_to_dict(agreement, clock)
    assert agreement_from_dict(values, clock) == agreement


def test_an_agreement_may_outlast_a_century_of_the_run() -> None:
    clock, terms = RunTime(starts_at_ms=0), {"name": "one", "provider": "a", "consumer": "b", "kind": "no-limit"}
    agreement = agreement_from_dict({**terms, "end": "2200-01-01T00:00:00Z"}, clock)
    assert agreement_from_dict(agreement_to_dict(agreement, clock), clock) == agreement


@given(st.lists(agreements(), min_size=1, max_size=4, unique_by=lambda agreement: agreement.name))
def test_a_whole_file_reads_as_the_same(tmp_path_factory: Any, several: list[Agreement]) -> None:
    document = AgreementDocument(tuple(several), (DomainSpec("das", ("das2", "das3")),), SharingSpec("refuse", 3, 2))
    path = tmp_path_factory.mktemp("agreements") / "agreements.toml"
    path.write_text(to_toml(document.to_dict()), encoding="utf-8")
    assert load_document(path) == document


@given(agreements())
def test_the_schema_takes_whatever_the_reader_takes(agreement: Agreement) -> None:
    SCHEMA.validate(AgreementDocument((agreement,)).to_dict())


# --- the examples of the paper ----------------------------------------------------------------------------

DAS = """
[[agreement]]
name = "das-in-the-daytime"
provider = "das"
consumer = "*"
kind = "no-limit"
longest_s = 900
hours = "08:00-20:00"
zone = "Europe/Amsterdam"

[[agreement]]
name = "das-for-larger-projects"
provider = "das"
consumer = "projects"
kind = "no-limit"
reserved_share = 0.5
reserved_longest_s = 1_209_600
begin = 2026-09-01T00:00:00+02:00
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agreements.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_rules_of_das(tmp_path: Path) -> None:
    """Section 2.1: 15 minutes from 08:00 to 20:00, half of the resources and two weeks for reservations."""
    daytime, projects = load_document(written(tmp_path, DAS)).agreements
    assert daytime.rules == Rules(15 * 60_000, DailyHours(8 * 60, 20 * 60, "Europe/Amsterdam"))
    assert projects.rules == Rules(reserved_ppm=500_000, reserved_longest_ms=14 * 24 * 3_600_000)
    assert projects.begin_ms == 1_788_213_600_000  # midnight in summer time is 22:00 in UTC
    assert agreement_to_dict(projects)["begin"] == "2026-08-31T22:00:00Z"


def minimal(**more: Any) -> dict[str, Any]:
    return {"name": "atlas-at-das3", "provider": "das3", "consumer": "atlas", "kind": "no-limit"} | more


COMMITMENT = {"kind": "commitment", "epoch_share": 0.3, "epoch_s": 1200, "burst_share": 0.6, "burst_s": 300}


def test_the_commitment_of_the_evaluation() -> None:
    """Section 4.2: 30% over an epoch, 60% over a burst."""
    found = agreement_from_dict(minimal(**COMMITMENT))
    assert found.limit == Commitment(300_000, 1_200_000, 600_000, 300_000)


def test_what_a_decay_says_by_itself_is_what_the_paper_says() -> None:
    found = agreement_from_dict(minimal(kind="decay", share=0.3, window_s=300))
    assert found.limit == TimeDecay(300_000, 300_000, (1_000_000, 500_000, 200_000, 100_000))
    found = agreement_from_dict(minimal(kind="udecay", share=0.3, window_s=600))
    assert found.limit == UsageDecay(300_000, 600_000)


def test_steps_may_come_in_any_order() -> None:
    """Section 4.4, Table 7: slow decay adds 0.8 at 80%."""
    steps = [[0.1, 0.1], [0.8, 0.8], [0.5, 0.5], [1, 1], [0.2, 0.2]]
    found = agreement_from_dict(minimal(kind="udecay", share=0.3, window_s=600, steps=steps)).limit
    assert isinstance(found, UsageDecay)
    assert [at for at, _ in found.steps] == [1_000_000, 800_000, 500_000, 200_000, 100_000]


# --- moments ----------------------------------------------------------------------------------------------


def test_a_moment_is_a_date_of_toml_or_a_text() -> None:
    date = datetime(2026, 9, 1, tzinfo=UTC)
    one = agreement_from_dict(minimal(begin=date))
    assert one == agreement_from_dict(minimal(begin="2026-09-01T02:00:00+02:00"))


@pytest.mark.parametrize("value", ["2026-09-01T00:00:00", "2026-09-01", "soon", 5, datetime(2026, 9, 1)])  # noqa: DTZ001
def test_a_date_without_a_zone_is_refused(value: Any) -> None:
    with pytest.raises(InvalidField, match=r"^begin: got .*, expected a date and time with its zone"):
        agreement_from_dict(minimal(begin=value))


def test_in_a_run_a_moment_is_seconds_or_a_date_if_it_has_one() -> None:
    clock = RunTime(starts_at_ms=1_000_000)
    found = agreement_from_dict(minimal(begin_s=5, end="1970-01-01T00:20:00Z"), clock)
    assert (found.begin_ms, found.end_ms) == (5_000, 200_000)
    with pytest.raises(InvalidField, match=r"^begin: got 'a date', expected begin_s, .* starts_at"):
        agreement_from_dict(minimal(begin="1970-01-01T00:20:00Z"), RunTime())
    with pytest.raises(InvalidField, match=r"^begin: got 'begin and begin_s', expected one of them"):
        agreement_from_dict(minimal(begin="1970-01-01T00:20:00Z", begin_s=1), clock)


def test_a_service_has_no_second_zero() -> None:
    with pytest.raises(InvalidField, match=r"^begin_s: got 'begin_s', expected one of .*begin"):
        agreement_from_dict(minimal(begin_s=5), UNIX_TIME)


# --- what is refused, and where ---------------------------------------------------------------------------

SHAPE: list[tuple[dict[str, Any], str]] = [
    ({"name": "no spaces"}, "name"),
    ({"name": "x" * 101}, "name"),
    ({"consumer": "atlas//production"}, "consumer"),
    ({"consumer": "/atlas"}, "consumer"),
    ({"consumer": "@"}, "consumer"),
    ({"provider": ""}, "provider"),
    ({"resource": "cpu"}, "resource"),
    ({"resource": "licence:"}, "resource"),
    ({"kind": "unlimited"}, "kind"),
    ({"kind": "commitment"}, "epoch_share"),
    ({"kind": "decay", "window_s": 300}, "share"),
    ({"kind": "decay", "share": 30, "window_s": 300}, "share"),
    ({"kind": "decay", "share": "30%", "window_s": 300}, "share"),
    ({"kind": "decay", "share": True, "window_s": 300}, "share"),
    ({"kind": "decay", "share": 0.3, "window_s": 0}, "window_s"),
    ({"kind": "decay", "share": 0.3, "window_s": 300, "factors": []}, "factors"),
    ({"kind": "decay", "share": 0.3, "window_s": 300, "factors": [2]}, "factors"),
    ({"kind": "udecay", "share": 0.3, "window_s": 300, "factors": [1]}, "factors"),
    ({"kind": "udecay", "share": 0.3, "window_s": 300, "windows": 0}, "windows"),
    ({"kind": "udecay", "share": 0.3, "window_s": 300, "steps": [[0.5]]}, "steps"),
    ({"kind": "udecay", "share": 0.3, "window_s": 300, "steps": [0.5, 0.5]}, "steps"),
    ({"share": 0.3}, "share"),
    ({"lending_limit": -1}, "lending_limit"),
    ({"lending_limit": 2.5}, "lending_limit"),
    ({"longest_s": 900, "hours": "8-20"}, "hours"),
    ({"longest_s": 900, "hours": "08:00-24:30"}, "hours"),
    ({"hours": "08:00-20:00"}, "hours"),
    ({"zone": "Europe/Amsterdam"}, "zone"),
    ({"reserved_share": 50}, "reserved_share"),
    ({"priority": -1}, "priority"),
    ({"penalty": "high"}, "penalty"),
    ({"penalty_lasts_s": 0}, "penalty_lasts_s"),
    ({"relative": True}, "relative"),
    ({"begin": 5}, "begin"),
    ({"colour": "blue"}, "colour"),
]
MEANING: list[tuple[dict[str, Any], str]] = [
    ({"parent": "atlas-at-das3"}, "parent"),
    ({"parent": "all", "consumer": "*"}, "consumer"),
    ({"longest_s": 900, "hours": "08:00-08:00"}, "hours"),
    ({"longest_s": 900, "hours": "08:00-20:00", "zone": "Europe/Atlantis"}, "zone"),
    ({"kind": "udecay", "share": 0.3, "window_s": 300, "steps": [[0.5, 1], [0.5, 0]]}, "steps"),
    ({"begin": "2026-09-02T00:00:00Z", "end": "2026-09-01T00:00:00Z"}, "end"),
]


@pytest.mark.parametrize(("wrong", "field"), [*SHAPE, *MEANING])
def test_what_is_wrong_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        agreement_from_dict(minimal(**wrong))
    assert caught.value.field == field


@pytest.mark.parametrize(("wrong", "field"), SHAPE)
def test_the_schema_refuses_what_is_wrong_in_shape(wrong: dict[str, Any], field: str) -> None:
    assert not SCHEMA.is_valid({"agreement": [minimal(**wrong)]}), field


@pytest.mark.parametrize("key", ["name", "provider", "consumer", "kind"])
def test_four_keys_are_needed(key: str) -> None:
    values = minimal()
    del values[key]
    with pytest.raises(InvalidField, match=rf"^{key}: missing"):
        agreement_from_dict(values)
    assert not SCHEMA.is_valid({"agreement": [values]})


SOMETHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["*", "@das3", "a/b", "a//b", "cpus", "udecay", "08:00-24:00", "UTC", "das", 0.001]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)
KEYS = sorted(agreement_schema()["$defs"]["agreement"]["properties"])


@given(agreements(), st.dictionaries(st.sampled_from(KEYS), SOMETHING, min_size=1, max_size=2))
def test_any_value_of_any_key_gives_an_agreement_that_the_schema_takes_or_one_line(
    agreement: Agreement, changed: dict[str, Any]
) -> None:
    values = agreement_to_dict(agreement) | changed
    try:
        found = agreement_from_dict(values)
    except InvalidField as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - what is raised is one of two good answers
    else:
        assert SCHEMA.is_valid({"agreement": [values]})
        assert agreement_from_dict(agreement_to_dict(found)) == found


def test_the_schema_takes_a_whole_document() -> None:
    sharing = SHARING.to_dict(SharingSpec("refuse", 3, 2, "least-used"))
    domain = {"name": "das", "sites": ["das2", "das3"]}
    SCHEMA.validate({"agreement": [minimal()], "domain": [domain], "sharing": sharing})
    for wrong in ({"name": "@das", "sites": ["x"]}, {"name": "das", "sites": []}, {"name": "das"}):
        assert not SCHEMA.is_valid({"agreement": [minimal()], "domain": [wrong]})
    assert not SCHEMA.is_valid({"sharing": {"threshold": -1}})


def test_the_schema_is_one() -> None:
    meta.validate(agreement_schema())


def test_the_schema_has_every_key_of_an_agreement() -> None:
    """Whoever adds a key adds it there."""
    with pytest.raises(InvalidField) as caught:
        agreement_from_dict(minimal(colour="blue"))
    known = set(str(caught.value.expected).removeprefix("one of ").split(", "))
    assert known <= set(agreement_schema()["$defs"]["agreement"]["properties"])


def lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), 1)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('kind = "no-limit"', 'kind = "no-limits"', r"agreement\[0\]\.kind: got 'no-limits'.*did you mean"),
        ("longest_s = 900", "longest_s = -900", r"agreement\[0\]\.longest_s: got -900, expected a number"),
        ("reserved_share = 0.5", "reserved_share = 50", r"agreement\[1\]\.reserved_share: got 50, expected"),
        ("reserved_share = 0.5", "reserve_share = 50", r"agreement\[1\]\.reserve_share: got 'reserve_share'"),
        ('"das-for-larger-projects"', '"das-in-the-daytime"', "a name that no other agreement has"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = DAS.replace(old, new, 1)
    [line] = [number for number, found in lines(text) if new in found][-1:]
    with pytest.raises(InputError, match=problem) as caught:
        load_document(written(tmp_path, text))
    assert caught.value.line == line


def test_a_file_without_an_agreement_is_none() -> None:
    with pytest.raises(InvalidField, match=r"expected at least one \[\[agreement\]\]"):
        read_document(Keys({}))
