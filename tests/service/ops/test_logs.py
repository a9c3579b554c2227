"""What is logged, in which form, and what is not."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from leasehold.service.config import LogSpec
from leasehold.service.logs import REQUEST_LOGGER, is_for_people, set_up_logs

SECRET = "lh_a1b2c3_" + "S3cr3t" * 7


class Terminal(io.StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Leave no trace of what a test set up: logging is the same for the whole process."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    loggers = [root, logging.getLogger("leasehold"), logging.getLogger(REQUEST_LOGGER)]
    levels = [logger.level for logger in loggers]
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestForm:
    @pytest.mark.parametrize(
        ("wanted", "stream", "expected"),
        [
            ("auto", Terminal(), True),
            ("auto", io.StringIO(), False),
            ("json", Terminal(), False),
            ("console", io.StringIO(), True),
        ],
    )
    def test_people_are_on_terminals(self, wanted: str, stream: io.StringIO, *, expected: bool) -> None:
        assert is_for_people(LogSpec(format=wanted), stream) is expected

    def test_a_line_is_one_object_that_begins_with_when_and_what(self) -> None:
        set_up_logs(LogSpec(), stream := io.StringIO())
        structlog.get_logger("leasehold.x").info("listening", url="http://127.0.0.1:1")
        (line,) = lines(stream)
        assert list(line)[:3] == ["timestamp", "level", "event"]
        assert (line["event"], line["url"], line["logger"]) == (
            "listening",
            "http://127.0.0.1:1",
            "leasehold.x",
        )

    def test_a_person_reads_words(self) -> None:
        set_up_logs(LogSpec(format="console"), stream := io.StringIO())
        structlog.get_logger("leasehold.x").warning("site unreachable", site="das3")
        assert "site unreachable" in stream.getvalue()
        assert "site=das3" in stream.getvalue()


class TestWhoSpeaks:
    def test_the_web_server_is_folded_in(self) -> None:
        set_up_logs(LogSpec(), stream := io.StringIO())
        logging.getLogger("uvicorn.error").error("socket %s is gone", 7)
        (line,) = lines(stream)
        assert (line["event"], line["logger"]) == ("socket 7 is gone", "uvicorn.error")

    @pytest.mark.parametrize(("level", "heard"), [("info", []), ("debug", ["Uvicorn running"])])
    def test_libraries_chat_only_when_everything_is_wanted(self, level: str, heard: list[str]) -> None:
        set_up_logs(LogSpec(level=level), stream := io.StringIO())
        logging.getLogger("uvicorn.error").info("Uvicorn running")
        assert [line["event"] for line in lines(stream)] == heard

    @pytest.mark.parametrize(("requests", "said"), [(True, 1), (False, 0)])
    def test_requests_are_said_where_they_are_wanted(self, said: int, *, requests: bool) -> None:
        set_up_logs(LogSpec(requests=requests), stream := io.StringIO())
        structlog.get_logger(REQUEST_LOGGER).info("request")
        assert len(lines(stream)) == said

    def test_what_is_below_the_level_is_not_said(self) -> None:
        set_up_logs(LogSpec(level="warning"), stream := io.StringIO())
        structlog.get_logger("leasehold.x").info("request")
        assert stream.getvalue() == ""


class TestSecrets:
    @pytest.mark.parametrize("form", ["json", "console"])
    def test_no_token_is_written(self, form: str) -> None:
        set_up_logs(LogSpec(format=form), stream := io.StringIO())
        log = structlog.get_logger("leasehold.x")
        log.info(SECRET, header=f"Bearer {SECRET}", nested={"list": [SECRET]})
        logging.getLogger("uvicorn.error").error("bad header %s", SECRET)
        assert stream.getvalue().count("lh_a1b2c3_") == 4
        assert "S3cr3t" not in stream.getvalue()

    @pytest.mark.parametrize("form", ["json", "console"])
    def test_nor_one_in_a_traceback(self, form: str) -> None:
        set_up_logs(LogSpec(format=form), stream := io.StringIO())
        try:
            int(SECRET)
        except ValueError:
            structlog.get_logger("leasehold.x").exception("failed")
        assert "Traceback" in stream.getvalue()
        assert "S3cr3t" not in stream.getvalue()
