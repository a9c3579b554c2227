"""``leasehold doctor``: what is installed, what this machine can do, and what is misconfigured."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from leasehold.cli.exit_codes import ANSWER_IS_NO, DONE
from leasehold.cli.options import Config, Data, Json, StoreUrl, Wanted
from leasehold.cli.screen import answer, answer_json

if TYPE_CHECKING:
    from leasehold.service.doctor import CheckResult

_TITLES = {"installed": "Installed", "machine": "This machine", "gateway": "The gateway"}


def doctor(config: Config = None, data: Data = None, store: StoreUrl = "", json: Json = False) -> int:
    """Check installation, machine and configuration; print each problem with its fix.

    Exits with 1 if a problem is found.
    """
    from leasehold.service.doctor import Severity

    findings = list(_examined(Wanted(config, data, store)))
    problems = sum(one.finding.severity is Severity.PROBLEM for one in findings)
    if json:
        _answer_json(findings, problems)
    else:
        _answer(findings, problems)
    return ANSWER_IS_NO if problems else DONE


def _examined(wanted: Wanted) -> "Iterator[CheckResult]":
    from leasehold.service.doctor import examine
    from leasehold.service.doctor.machine import INSTALLED, MACHINE, service_is_installed

    yield from examine("installed", INSTALLED)
    yield from examine("machine", MACHINE)
    if service_is_installed():
        yield from _examined_gateway(wanted)


def _examined_gateway(wanted: Wanted) -> "Iterator[CheckResult]":
    """Look at the gateway; where its configuration cannot be read, that is all there is to say."""
    from leasehold.model.errors import LeaseholdError
    from leasehold.service.doctor import CheckResult, examine, problem
    from leasehold.service.doctor.gateway import Subject, checks_of

    try:
        configuration = wanted.configuration()
    except LeaseholdError as error:
        finding = problem(str(error), "correct it there; leasehold serve --print-config shows all keys")
        yield CheckResult("gateway", "configuration", finding)
        return
    subject = Subject(configuration, wanted.file(), wanted.place(configuration))
    yield from examine("gateway", checks_of(subject))


def _answer_json(findings: "list[CheckResult]", problems: int) -> None:
    listed = [
        {
            "part": one.part,
            "check": one.check,
            "severity": one.finding.severity,
            "found": one.finding.text,
            "cure": one.finding.cure or None,
        }
        for one in findings
    ]
    answer_json({"problems": problems, "findings": listed})


def _answer(findings: "list[CheckResult]", problems: int) -> None:
    from leasehold.analysis.wording import count

    for part, ones in groupby(findings, key=lambda one: one.part):
        answer("\n".join([f"{_TITLES[part]}", *_lines(ones), ""]))
    answer(f"{count(problems, 'problem')} found." if problems else "No problems found.")


def _lines(findings: "Iterator[CheckResult]") -> Iterator[str]:
    """Write each finding in a line, its fix below it."""
    for one in findings:
        yield f"  {one.finding.severity:<8} {one.finding.text}"
        if one.finding.cure:
            yield f"           -> {one.finding.cure}"
