"""Numbers in the words of a report."""

import pytest

from leasehold.analysis.wording import count, duration, listed, number, percent, value


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.25, "0.2 s"),
        (45, "45 s"),
        (119, "119 s"),
        (720, "12 min"),
        (7_500, "2 h 05 min"),
        (273_600, "3 d 4 h"),
        (-45, "-45 s"),
    ],
)
def test_durations(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_counts_agree_with_their_noun() -> None:
    assert [count(n, "lease") for n in (0, 1, 1_234)] == ["0 leases", "1 lease", "1,234 leases"]


def test_lists_are_joined_as_a_sentence_does() -> None:
    assert [listed(list(words)) for words in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]


def test_a_small_percentage_is_not_rounded_away() -> None:
    assert (percent(0.04), percent(12.34), percent(0), percent(None)) == ("0.04 %", "12.3 %", "0.0 %", "-")


def test_values_carry_their_unit_unless_their_name_says_it() -> None:
    assert value(3_600, "s") == "60 min"
    assert value(12.4, "VM-h") == "12 VM-h"
    assert value(7, "VMs") == "7"
    assert value(1.5, "") == "1.50"
    assert number(None) == "-"
