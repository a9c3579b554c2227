"""When a call is made again, and after which pause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.client import Lost, RetryPolicy, Unreachable
from leasehold.client.calls import Attempts, Response

URL = "http://127.0.0.1:8470"


def answer(status: int, retry_after: str = "") -> Response:
    return Response(status, {"retry-after": retry_after}, b"")


@given(st.integers(1, 60))
def test_pauses_double_up_to_the_longest_and_vary_by_half(failures: int) -> None:
    full_s = min(8.0, 0.25 * 2 ** (failures - 1))
    assert full_s / 2 <= RetryPolicy().pause_s(failures) <= full_s


def test_whoever_wants_a_longer_pause_gets_it() -> None:
    pause_s = Attempts(RetryPolicy()).after_response(answer(503, "5"))
    assert pause_s == 5


@pytest.mark.parametrize("retry_after", ["9", "86400"])
def test_too_long_a_pause_is_a_no(retry_after: str) -> None:
    assert Attempts(RetryPolicy()).after_response(answer(429, retry_after)) is None


@pytest.mark.parametrize("retry_after", ["", "soon", "-1", "Sat, 21 Nov 2026 10:43:36 GMT"])
def test_a_pause_that_is_no_number_of_seconds_is_ours(retry_after: str) -> None:
    assert Attempts(RetryPolicy(first_s=0)).after_response(answer(503, retry_after)) == 0


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 409, 422, 500])
def test_every_other_status_is_the_answer(status: int) -> None:
    assert Attempts(RetryPolicy()).after_response(answer(status)) is None


def test_while_nobody_has_opened_only_so_many_knock() -> None:
    attempts = Attempts(RetryPolicy(tries=9, connect_tries=2, first_s=0))
    attempts.after_failure(Unreachable(URL, "refused"))
    with pytest.raises(Unreachable) as caught:
        attempts.after_failure(Unreachable(URL, "refused"))
    assert not isinstance(caught.value, Lost)


def test_once_something_was_sent_it_must_be_known_what_became_of_it() -> None:
    attempts = Attempts(RetryPolicy(tries=3, connect_tries=1, first_s=0), "key")
    attempts.after_failure(Lost(URL, "reset"))
    attempts.after_failure(Unreachable(URL, "refused"))
    with pytest.raises(Lost, match="refused; repeat the request with the idempotency key key") as caught:
        attempts.after_failure(Unreachable(URL, "refused"))
    assert caught.value.key == "key"


def test_failures_and_refusals_count_together() -> None:
    attempts = Attempts(RetryPolicy(tries=2, connect_tries=2, first_s=0))
    attempts.after_failure(Unreachable(URL, "refused"))
    assert attempts.after_response(answer(503)) is None
