"""The checks that need nothing but Python, and how checks are run. One more is one more line here."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from leasehold.service.doctor import installed, machine
from leasehold.service.doctor.finding import Finding, problem

Check = Callable[[], list[Finding]]

INSTALLED: Mapping[str, Check] = {
    "core": installed.check_core,
    "extras": installed.check_extras,
}
MACHINE: Mapping[str, Check] = {
    "python": machine.check_python,
    "kvm": machine.check_kvm,
    "qemu": machine.check_qemu,
    "slurm": machine.check_slurm,
    "postgresql-client": machine.check_postgresql_client,
    "cgroups": machine.check_cgroups,
    "namespaces": machine.check_namespaces,
}


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, and the part and the check that it is from."""

    part: str
    check: str
    finding: Finding


def examine(part: str, checks: Mapping[str, Check]) -> Iterator[Told]:
    """Run checks, one after the other; one that fails itself keeps no other from being run."""
    for name, check in checks.items():
        try:
            findings = check()
        except Exception as error:  # noqa: BLE001 - whatever it stumbled over, the others are wanted
            text = f"this check could not be made: {type(error).__name__}: {error}"
            findings = [problem(text, "this is a defect of Leasehold: please report it")]
        yield from (Told(part, name, finding) for finding in findings)
