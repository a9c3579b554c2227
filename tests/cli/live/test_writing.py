"""How people write and read durations, points in time, states and columns."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli.live.leases import ADVICE, COLUMNS, DEFAULT, read_columns
from leasehold.cli.live.names import LEASE_STATES
from leasehold.cli.live.times import read_moment, show_distance, show_duration, show_moment
from leasehold.configuration.times import read_duration_s
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason

NOW = datetime(2026, 11, 21, 10, 56, 10, tzinfo=UTC)


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("3600", 3600),
            ("0.25", 0.25),
            ("90s", 90),
            ("90m", 5400),
            ("2h", 7200),
            ("1.5h", 5400),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("5:30", 330),
            ("2:00:00", 7200),
            ("1-12", 129_600),
            ("1-12:30", 131_400),
            ("1-12:00:00", 129_600),
            (" 60 ", 60),
        ],
    )
    def test_are_seconds_or_have_units_or_are_slurms(self, text: str, seconds: float) -> None:
        assert read_duration_s("--duration", text) == seconds

    @pytest.mark.parametrize(
        "text",
        ["", "0", "-5", "soon", "1w", "1h30", "1:2:3:4", "nan", "1e3", "0.0001", "0:00", "\u0661", "1 h"],
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidField, match=r"^--duration: got .* expected a time such as 3600 \(seconds\)"):
            read_duration_s("--duration", text)

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "0:00"),
            (7.9, "0:07"),
            (754, "12:34"),
            (3723, "1:02:03"),
            (176_523, "2-01:02:03"),
            (-3, "0:00"),
        ],
    )
    def test_are_written_as_slurm_does(self, seconds: float, text: str) -> None:
        assert show_duration(seconds) == text

    @given(st.integers(1, 10**8))
    def test_what_is_written_can_be_read(self, seconds: int) -> None:
        assert read_duration_s("--by", show_duration(seconds)) == seconds


class TestMoments:
    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("now", NOW),
            ("now+2h", NOW + timedelta(hours=2)),
            ("now-1d", NOW - timedelta(days=1)),
            ("now+1-12:00:00", NOW + timedelta(days=1, hours=12)),
            ("2026-11-21T18:00", datetime(2026, 11, 21, 18, tzinfo=UTC)),
            ("2026-11-21 18:00:00.5", datetime(2026, 11, 21, 18, 0, 0, 500_000, UTC)),
            ("2026-11-21T18:00:00+01:00", datetime(2026, 11, 21, 17, tzinfo=UTC)),
            ("2026-11-21T18:00:00Z", datetime(2026, 11, 21, 18, tzinfo=UTC)),
            ("2026-11-22", datetime(2026, 11, 22, tzinfo=UTC)),
        ],
    )
    def test_are_iso_or_from_now(self, text: str, moment: datetime) -> None:
        assert read_moment("--ready", text, NOW) == moment

    @pytest.mark.parametrize("text", ["", "tomorrow", "now2h", "now+", "now+soon", "18:60", "2026-13-01"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidField, match=r"^--ready: got "):
            read_moment("--ready", text, NOW)

    def test_are_shown_by_the_clock_of_the_place(self) -> None:
        assert show_moment(NOW) == "2026-11-21 10:56:10"
        assert show_distance(NOW + timedelta(minutes=12), NOW) == "in 12:00"
        assert show_distance(NOW - timedelta(minutes=12), NOW) == "12:00 ago"


class TestStates:
    def test_each_has_a_code_of_its_own_and_a_meaning(self) -> None:
        codes = {state: code for state, (code, _) in LEASE_STATES.known.items()}
        assert set(codes) == set(LeaseState)
        assert len(set(codes.values())) == len(codes)
        assert all(f"{code} {state} (" in LEASE_STATES.legend() for state, code in codes.items())

    def test_are_read_by_name_or_code(self) -> None:
        assert LEASE_STATES.read(["R,pd", "Suspended", ""]) == [
            LeaseState.RUNNING,
            LeaseState.WAITING,
            LeaseState.SUSPENDED,
        ]

    def test_another_is_refused(self) -> None:
        with pytest.raises(UnknownName, match="did you mean 'running'"):
            LEASE_STATES.read(["runing"])


class TestColumns:
    def test_are_read_by_name(self) -> None:
        assert [column.head for column in read_columns("id, ST,site-reason")] == ["ID", "ST", "SITE(REASON)"]
        assert read_columns("") == read_columns(DEFAULT)
        assert len(read_columns(",".join(COLUMNS))) == len(COLUMNS)

    def test_another_is_refused(self) -> None:
        with pytest.raises(
            UnknownName, match="--format: got 'sites', expected one of asked-duration, came-by, checkpointed, "
        ):
            read_columns("id,sites")


NEVER_HERE = {
    Reason.WIDER_THAN_SITE,
    Reason.WIDER_THAN_ANY_SITE,
    Reason.DEADLINE_TOO_TIGHT,
    Reason.NO_ROOM_AT_READY_TIME,
    Reason.NON_PREEMPTABLE_NOT_ALLOWED,
    Reason.WIDER_THAN_NON_PREEMPTABLE_SHARE,
    Reason.WIDER_THAN_DOMAIN,
    Reason.NO_AGREEMENT,
    Reason.PREEMPTABLE_ONLY,
    Reason.NOT_A_MEMBER,
    Reason.AGREEMENT_REVOKED,
    Reason.NON_PREEMPTABLE_SHARE_EXHAUSTED,
    Reason.NON_PREEMPTABLE_TOO_LONG,
    Reason.LOCAL_QUEUE_CLOSED,
    Reason.NO_CAPABLE_SITE,
    Reason.POLICY_REFUSED,
}


def test_there_is_advice_for_every_refusal() -> None:
    assert set(ADVICE) == NEVER_HERE
