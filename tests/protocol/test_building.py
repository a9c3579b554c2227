"""A response takes what it shows from what is stored, field by field by name."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from leasehold.protocol.base import ResponseModel
from leasehold.protocol.fields import Moment, OrNone, Seconds


class Shown(ResponseModel):
    name: str
    site: str
    since: Moment
    ended_at: OrNone[Moment]
    idle_s: OrNone[Seconds]


@dataclass(slots=True)
class Stored:
    name: str
    site: str
    since_ms: int = 0
    ended_ms: int = -1
    idle_ms: int | None = 1500


@dataclass(slots=True)
class Elsewhere:
    site: str
    owner: str


def test_a_field_is_given_or_comes_from_the_first_source_that_has_it() -> None:
    shown = Shown.of(Elsewhere("b", "physics"), Stored("sky", "a"))
    assert (shown.name, shown.site) == ("sky", "b")
    assert Shown.of(Stored("sky", "a"), site="c").site == "c"


def test_moments_and_durations_are_stored_in_ms_and_minus_one_is_no_moment() -> None:
    shown = Shown.of(Stored("sky", "a", ended_ms=1500))
    assert (shown.since, shown.idle_s) == (datetime(1970, 1, 1, tzinfo=UTC), 1.5)
    assert shown.ended_at == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    shown = Shown.of(Stored("sky", "a", idle_ms=None))
    assert (shown.ended_at, shown.idle_s) == (None, None)


def test_a_field_that_no_source_has_is_a_defect_even_where_it_has_a_default() -> None:
    with pytest.raises(TypeError, match=r"Shown\.ended_at is neither given nor in Elsewhere"):
        Shown.of(Elsewhere("b", "physics"), name="sky", since=datetime.now(UTC))
