"""What others have written is shown, and nothing of it obeyed: in answers, in talk and in tables."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli.live.table import answer_line, print_table
from leasehold.cli.screen import answer, answer_table, legible, talk

EVIL = "x\x1b[2J\x1b]52;c;aGk=\x07\x9d0;title\x9c\u202egnp\u2066\rover\x00"
SHOWN = r"x\x1b[2J\x1b]52;c;aGk=\x07\x9d0;title\x9c\u202egnp\u2066\rover\x00"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_plain_text_stays(text: str) -> None:
    shown = legible(text)
    assert not any(unicodedata.category(letter) in {"Cc", "Cf", "Cs"} for letter in shown if letter not in "\n\t")
    assert legible(shown) == shown
    if text.isprintable():
        assert shown == text


def test_every_way_out_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    for write in (answer, answer_line, talk):
        write(f"{EVIL}\nnext")
    said = capsys.readouterr()
    assert said.out == f"{SHOWN}\nnext\n" * 2
    assert said.err == f"{SHOWN}\nnext\n"


def test_a_row_of_a_table_is_one_line_whoever_named_what_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME"], [[f"{EVIL}\n1 forged"]], head=False)
    assert capsys.readouterr().out == f"{SHOWN}\\n1 forged\n"
    answer_table(["NAME"], [[EVIL]])
    assert "\x1b" not in capsys.readouterr().out
