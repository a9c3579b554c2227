"""``docs/reference/errors.md``, written from the declarations: `python -m tests.reference` writes it.

Kinds of problems, exit codes and keys are those of the program; what each key expects is what it answers when it is
given a value of the wrong type. Only what to do about an error is said here.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from leasehold.cli import exit_codes
from leasehold.configuration.declaration import Table
from leasehold.configuration.keys import Keys
from leasehold.configuration.terms import TERMS
from leasehold.model.errors import InvalidField
from leasehold.protocol.problems import Kind
from leasehold.service.config import LISTS, TABLES
from leasehold.service.config_file import OPTIONS

PAGE = "reference/errors.md"

REMEDIES: Mapping[Kind, str] = {
    Kind.UNREADABLE: "send a well-formed HTTP request and well-formed JSON",
    Kind.UNAUTHENTICATED: "send `Authorization: Bearer TOKEN` with a token that has not expired or been revoked",
    Kind.FORBIDDEN: "use a token with the role or scope that `detail` names",
    Kind.NOT_FOUND: "check the path against the OpenAPI document",
    Kind.NO_SUCH_LEASE: "check the ID; a lease that you may not see counts as missing",
    Kind.CONSOLE_ELSEWHERE: "ask the operators of the site that `detail` names",
    Kind.NO_SUCH_COALLOCATION: "check the ID; one that you may not see counts as missing",
    Kind.NO_SUCH_JOB: "check the ID; a job that you may not see counts as missing",
    Kind.NO_RESULT: "wait until the job has succeeded; an old result may have been deleted",
    Kind.NO_SUCH_SITE: "use one of the names in `detail`",
    Kind.NO_SUCH_PEER: "use one of the names in `detail`",
    Kind.NO_SUCH_AGREEMENT: "check the name; an agreement that you may not see counts as missing",
    Kind.NO_SUCH_PENALTY: "check the ID; it may have been lifted",
    Kind.NO_SUCH_TOKEN: "check the ID: the part of the token between the underscores",
    Kind.METHOD_NOT_ALLOWED: "use a method that the header `Allow` lists",
    Kind.IDEMPOTENCY_CONFLICT: "use a new `Idempotency-Key` for a new request",
    Kind.LEASE_CLOSED: "submit a new request",
    Kind.CANNOT_CHECKPOINT: "report a checkpoint while the lease runs, or until it is preempted",
    Kind.CANNOT_EXTEND: "try a shorter extension, or submit a new request",
    Kind.CANNOT_FORGET: "wait until the site has been silent for a minute; own sites cannot be forgotten",
    Kind.CANNOT_REMOVE_PEER: "wait until the leases between the two gateways have ended, or cancel them",
    Kind.NO_SUCH_FILE: "check the hash, and whether the upload is complete: `leasehold file list`",
    Kind.FILE_CONFLICT: "announce the file again, and continue where it says; one that changed has to be sent anew",
    Kind.FILE_QUOTA: "remove files; `limits.file_mib_per_consumer` and `limits.file_mib` are the quotas",
    Kind.NO_SUCH_PART: "ask for bytes below the size that `Content-Range` gives",
    Kind.AGREEMENT_MOVE: "read the agreement again: its state or revision has changed",
    Kind.TOO_LARGE: "send less; `limits.body_kib` sets the limit",
    Kind.NOT_JSON: "send the body as JSON with `Content-Type: application/json`",
    Kind.INVALID_REQUEST: "correct the value of `field` as `expected` says",
    Kind.TOO_MANY_OPEN: "wait until earlier requests have ended; `limits.open_requests_per_consumer` sets the limit",
    Kind.TOO_MANY_REQUESTS: "wait as long as `Retry-After` says",
    Kind.TOO_MANY_STREAMS: "close a stream; `limits.streams_per_consumer` sets the limit",
    Kind.DEFECT: "report it with the `X-Request-ID` of the answer and the log lines that carry it",
    Kind.UNAVAILABLE: "try again after `Retry-After`; `/readyz` says why",
}

EXIT_CODES: Mapping[str, tuple[str, str]] = {
    "DONE": ("the command succeeded", ""),
    "ANSWER_IS_NO": ("the command ran, and the answer is no", "read the answer; [exit codes](exit-codes.md) lists it"),
    "BAD_INPUT": ("the input or the command line is not acceptable", "correct the field or line that the error names"),
    "DEFECT": (
        "Leasehold broke an invariant of its own; of `plan`, with an answer: the request would be refused",
        "report it with the seed or log that the error names, where there is no answer",
    ),
    "UNREACHABLE": ("no gateway answers, or it is not ready", "start it with `leasehold serve`, or wait"),
    "INTERRUPTED": ("interrupted with Ctrl-C", ""),
}

_WRONG: list[dict[str, object]] = [{}]
"""A list of an empty table: no key takes it."""

_INTRO = """# Errors

An error is one line: the field or file, the value, and what was expected. This page lists all errors, and what to
do about it. It is generated: `make keys` writes it.

## Exit codes

| code | meaning | what to do |
|---|---|---|
"""

_PROBLEMS = """
## Problems over HTTP

Bodies are `application/problem+json`, as the [API](api.md#errors) describes.

| `type`, after `urn:leasehold:problem:` | status | title | what to do |
|---|---|---|---|
"""

_CONFIGURATION = """
## Configuration

`FILE:LINE: KEY: got VALUE, expected EXPECTATION`. A key that does not exist is answered with the keys that do, and the
nearest of them. What each key expects; its meaning is in [service configuration](service.md).

| key | expected |
|---|---|
"""


def errors_page() -> str:
    """Give the page as it should be."""
    codes = [f"| {value} | {' | '.join(EXIT_CODES[name])} |" for name, value in _exit_codes()]
    problems = [
        f"| `{kind.urn.rpartition(':')[2]}` | {kind.status} | {kind.title} | {REMEDIES[kind]} |" for kind in Kind
    ]
    keys = [f"| `{key}` | {expected} |" for key, expected in expectations()]
    tables = ("\n".join(rows) + "\n" for rows in (codes, problems, keys))
    return "".join(chain(*zip((_INTRO, _PROBLEMS, _CONFIGURATION), tables, strict=True)))


def _exit_codes() -> Iterator[tuple[str, int]]:
    return ((name, value) for name, value in vars(exit_codes).items() if name.isupper())


def expectations() -> Iterator[tuple[str, str]]:
    """Give every key of ``leasehold.toml`` by its full name, with what it expects."""
    options = {f"cluster.{kind}": table for kind, table in OPTIONS.items()}
    for above, table in [*TABLES.items(), *LISTS.items(), *options.items()]:
        yield from _of_table(above, table)
        if above == "cluster":
            yield from _of_table(above, TERMS)


def _of_table(above: str, table: Table[Any]) -> Iterator[tuple[str, str]]:
    for name, key in table.by_name().items():
        try:
            key.read(Keys({name: _WRONG}, above), name, None)
        except InvalidField as error:
            yield error.field, error.expected
