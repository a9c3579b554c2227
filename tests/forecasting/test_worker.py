"""The process that simulates futures."""

import subprocess
import sys

from leasehold.forecasting.worker import LENGTH

QUESTION = b"{}\n"


def test_it_ends_without_a_word_where_nobody_wants_the_answer_any_more() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "leasehold.forecasting.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(len(QUESTION).to_bytes(LENGTH, "big") + QUESTION)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
