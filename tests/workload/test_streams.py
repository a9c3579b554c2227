"""Named random streams: stable, and independent of each other."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.simulation.workload.streams import random_stream


def test_a_stream_is_the_same_in_every_version_and_on_every_machine() -> None:
    assert random_stream(7, "C64", "sizes").getrandbits(64) == 9_383_763_393_043_138_893


@given(st.integers(), st.text(), st.text())
def test_equal_names_give_equal_numbers(seed: int, stream: str, purpose: str) -> None:
    assert random_stream(seed, stream, purpose).random() == random_stream(seed, stream, purpose).random()


@given(st.integers(), st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True))
def test_different_names_give_different_numbers(seed: int, names: list[str]) -> None:
    drawn = [random_stream(seed, name).getrandbits(128) for name in names]

    assert len(set(drawn)) == len(names)


def test_seed_and_stream_and_purpose_all_matter() -> None:
    drawn = {
        random_stream(1, "a", "sizes").random(),
        random_stream(2, "a", "sizes").random(),
        random_stream(1, "b", "sizes").random(),
        random_stream(1, "a", "gaps").random(),
        random_stream(1, "asizes").random(),
    }

    assert len(drawn) == 5
