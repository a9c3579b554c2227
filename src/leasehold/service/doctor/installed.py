"""Which parts of Leasehold are installed, and in versions that they work with?

Needs nothing but Python, so that it can say that the rest is missing.
"""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from leasehold import __version__
from leasehold.service.doctor.finding import Finding, note, ok, problem

PACKAGE = "leasehold"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?(?:>=(?P<least>[\d.]+))?")
_EXTRA = re.compile(r"extra == ['\"](?P<extra>\w+)['\"]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that a part needs, in a version of at least ``least``; "" is the core."""

    part: str
    name: str
    least: str = ""

    @property
    def has(self) -> str | None:
        """The version that is installed, None where it is not."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return None

    @property
    def is_met(self) -> bool:
        """Whether it is there, and not too old."""
        return self.has is not None and _numbers(self.has) >= _numbers(self.least)


def requirements() -> list[Requirement]:
    """List what every part needs, by what Leasehold itself was installed with."""
    return [_requirement(text) for text in requires(PACKAGE) or () if not text.startswith(f"{PACKAGE}[")]


def _requirement(text: str) -> Requirement:
    found, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
    assert found is not None
    return Requirement(extra["extra"] if extra else "", found["name"], found["least"] or "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def check_core() -> list[Finding]:
    """Is the core complete?"""
    return [_part("", requirements(), f"Leasehold {__version__}", f"pip install --upgrade {PACKAGE}")]


def check_extras() -> list[Finding]:
    """Which of the other parts are there, and complete?"""
    needed = requirements()
    parts = sorted({one.part for one in needed} - {""})
    return [_part(part, needed, part, f"pip install '{PACKAGE}[{part}]'") for part in parts]


def _part(part: str, needed: list[Requirement], name: str, cure: str) -> Finding:
    mine = [one for one in needed if one.part == part]
    missing = [one.name for one in mine if one.has is None]
    old = [f"{one.name} {one.has} (needs {one.least})" for one in mine if one.has and not one.is_met]
    if old:
        return problem(f"{name} has packages that are too old: {', '.join(old)}", cure)
    if missing:
        return note(f"{name} is not installed: no {', '.join(missing)}", cure)
    return ok(f"{name}: {', '.join(f'{one.name} {one.has}' for one in mine)}")


def service_is_installed() -> bool:
    """Whether everything is there that a gateway needs."""
    return all(one.is_met for one in requirements() if one.part in {"client", "service"})
