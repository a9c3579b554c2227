"""What part of the time that they ask for guests need, as learnt from those that have ended."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.routing.estimators import BELIEF_COUNTS, EVERYBODY_COUNTS, MOST_COUNTED, MOST_USERS, RunTimes

parts = st.floats(0, 1)
pasts = st.lists(st.tuples(st.sampled_from(["ann", "ben", "cleo"]), parts), max_size=MOST_COUNTED)


def after(past: list[tuple[str, float]]) -> RunTimes:
    learnt = RunTimes()
    for user, part in past:
        learnt.ended(user, part)
    return learnt


def test_before_anything_has_ended_everybody_is_taken_at_their_word() -> None:
    assert RunTimes().needed_part("ann") == 1.0


def test_who_always_asks_for_five_times_too_much_is_soon_known_for_it() -> None:
    learnt = after([("ann", 0.2)] * 50)
    assert learnt.needed_part("ann") == pytest.approx(0.2, abs=0.05)


def test_a_new_user_is_taken_for_one_like_the_others_and_an_old_one_for_what_they_are() -> None:
    learnt = after([("ann", 0.2), ("ben", 1.0)] * 200)
    assert learnt.needed_part("cleo") == pytest.approx(0.6, abs=0.05)
    assert learnt.needed_part("ann") < 0.3
    assert learnt.needed_part("ben") > 0.9


def test_habits_change() -> None:
    assert after([("ann", 0.1)] * 1_000 + [("ann", 0.9)] * 500).needed_part("ann") > 0.85


@given(pasts)
def test_it_is_the_mean_of_what_was_seen_and_of_what_was_believed(past: list[tuple[str, float]]) -> None:
    everybody = [part for _, part in past]
    of_all = (BELIEF_COUNTS + sum(everybody)) / (BELIEF_COUNTS + len(everybody))
    own = [part for user, part in past if user == "ann"]
    expected = (EVERYBODY_COUNTS * of_all + sum(own)) / (EVERYBODY_COUNTS + len(own))
    assert after(past).needed_part("ann") == pytest.approx(expected)


@given(st.lists(st.sampled_from(["ann", "ben"]), max_size=300))
def test_where_all_ask_for_what_they_need_nothing_is_rounded(users: list[str]) -> None:
    learnt = after([(user, 1.0) for user in users])
    assert (learnt.needed_part("ann"), learnt.needed_part("cleo")) == (1.0, 1.0)


@given(pasts, pasts)
def test_a_restart_changes_nothing(past: list[tuple[str, float]], later: list[tuple[str, float]]) -> None:
    learnt = after(past)
    again = RunTimes.recalled(json.loads(json.dumps(learnt.memory())))
    for user, part in later:
        learnt.ended(user, part)
        again.ended(user, part)
    assert again.memory() == learnt.memory()


def test_of_users_only_the_last_are_remembered() -> None:
    learnt = after([(f"user {number}", 0.1) for number in range(MOST_USERS)])
    learnt.ended("user 0", 0.1)
    learnt.ended("one more", 0.1)
    remembered = {user for user, _, _ in learnt.memory()["users"]}
    assert len(remembered) == MOST_USERS
    assert {"user 0", "one more"} <= remembered
    assert "user 1" not in remembered
