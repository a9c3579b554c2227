"""Answers without an end, line by line; when the reader has gone away, so do we."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

from leasehold.cli.exit_codes import DONE
from leasehold.cli.screen import SCHEMA_VERSION, legible, plain


def answer_line(text: str) -> None:
    """Print one line at once; ends the command where nobody reads any more (``| head``)."""
    try:
        typer.echo(legible(text))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(DONE) from None


def answer_json_line(values: Mapping[str, Any]) -> None:
    """Print one JSON object in one line."""
    answer_line(json.dumps({"schema_version": SCHEMA_VERSION, **values}, default=plain))
