"""Processes that are there to be killed begin as one that is started now would, whenever their server was."""

import os
from multiprocessing.connection import Connection

import pytest
from tests.waiting import PATIENCE_S

from leasehold.testing.killable import Killable

NAME = "LEASEHOLD_TESTS_SAY"


def say(connection: Connection) -> None:
    """Say what the environment has."""
    connection.send(os.environ.get(NAME))


@pytest.mark.parametrize("word", ["first", "second"])
def test_each_has_the_environment_of_its_maker(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fake program on the path of one test would be found in all later ones."""
    monkeypatch.setenv(NAME, word)
    with Killable(say) as process:
        assert process.hear(PATIENCE_S) == [word]
    monkeypatch.delenv(NAME)
    with Killable(say) as process:
        assert process.hear(PATIENCE_S) == [None]
