"""Tables of the documentation that are written from declarations: `python -m tests.reference`.

Keys of configurations stand between ``<!-- keys: NAME -->`` and ``<!-- end of keys -->``, columns of the tables of a
run folder between ``<!-- columns: TABLE -->`` and ``<!-- end of columns -->``. The options of a command
follow the prose of its section in ``reference/commands.md``, as its help has them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tests.error_reference import PAGE, errors_page

from leasehold.cli.main import app
from leasehold.configuration.agreements import AGREEMENT, RULES
from leasehold.configuration.declaration import Table
from leasehold.configuration.tables import DOMAIN, GATEWAY, NODE_GPUS, PLANNED_NODES, SHARING, SHARING_OF_RUN
from leasehold.configuration.terms import OVERHEAD, TERMS
from leasehold.model.tables import COLUMNS
from leasehold.service.auth.issuers import ISSUER
from leasehold.service.config import (
    CLUSTER,
    ESTIMATES,
    JOBS,
    LIMITS,
    LOG,
    RETENTION,
    SERVICE,
    default_routing,
    default_sharing,
    default_terms,
)
from leasehold.service.config_file import OPTIONS
from leasehold.service.drivers.emulated.images import BUILDING
from leasehold.service.drivers.emulated.options import ALIKE
from leasehold.simulation.scenario import events, jobs, spec
from leasehold.simulation.workload.together import TOGETHER


def _rows(table: Table[Any], *keys: str) -> list[str]:
    """Give the rows of some keys."""
    return [row for row in table.reference() if row.split("`")[1] in keys]


FOLDER = Path(__file__).resolve().parent.parent / "docs"

ROWS: dict[str, dict[str, list[str]]] = {
    "reference/service.md": {
        "service": SERVICE.reference(),
        "limits": LIMITS.reference(),
        "retention": RETENTION.reference(),
        "gateway": GATEWAY.reference(default_routing()),
        "sharing": SHARING.reference(default_sharing()),
        "domain": DOMAIN.reference(),
        "jobs": JOBS.reference(),
        "log": LOG.reference(),
        "estimates": ESTIMATES.reference(),
        "cluster": CLUSTER.reference(),
        "defaults": TERMS.reference(default_terms()),
        "overhead": OVERHEAD.reference(),
        "emulated": OPTIONS["emulated"].reference(),
        "planned": PLANNED_NODES.reference(),
        "gpus": NODE_GPUS.reference(),
        "nodes": ALIKE.reference(),
        "building": BUILDING.reference(),
        "issuer": ISSUER.reference(),
    },
    "howto/virtual-machines.md": {"qemu": OPTIONS["qemu"].reference()},
    "howto/slurm.md": {"slurm": OPTIONS["slurm"].reference()},
    "howto/libvirt.md": {"libvirt": OPTIONS["libvirt"].reference()},
    "howto/clouds.md": {"ec2": OPTIONS["ec2"].reference()},
    "howto/opennebula.md": {"opennebula": OPTIONS["opennebula"].reference()},
    "reference/agreements.md": {
        "who": _rows(AGREEMENT, "name", "provider", "consumer", "resource"),
        "lending": _rows(AGREEMENT, "lending_limit"),
        "rules": RULES.reference(),
        "when": _rows(AGREEMENT, "begin", "end", "priority", "penalty", "penalty_lasts_s"),
        "parent": _rows(AGREEMENT, "parent", "relative"),
        "domain": DOMAIN.reference(),
        "sharing": SHARING_OF_RUN.reference(),
    },
    "reference/scenario.md": {
        "scenario": spec.SCENARIO.reference(),
        "gateway": GATEWAY.reference(),
        "cluster": [*spec.CLUSTER.reference(), *TERMS.reference()],
        "overhead": OVERHEAD.reference(),
        "stream": [
            *_rows(spec.LOG_STREAM, "name", "load", "domain", "claims", "cores", "gpus", "image"),
            *spec.MIX.reference(),
        ],
        "log": [
            *_rows(spec.LOG_STREAM, "log", "format", "site", "cluster_by"),
            *spec.MADE_CLUSTERS.reference(),
            *_rows(
                spec.LOG_STREAM, "external", "size", "overrun", "memory_mib", "vm", "consumer_by", "replay_cancelled"
            ),
            *spec.WINDOW.reference(),
        ],
        "together": TOGETHER.reference(),
        "job": jobs.JOB.reference(),
        "nodes": jobs.NODES.reference(),
        "failures": events.FAILURES.reference(),
        "starts": events.STARTS.reference(),
        "users": events.USERS.reference(),
        "timeline": events.TIMELINE.reference(),
        "kinds": events.kinds_reference(),
    },
}
"""The rows of each table of keys, by its page below ``docs`` and its name there."""

_HEAD = "| key | meaning | values | default |\n|---|---|---|---|"
_HEADS = {"kinds": "| kind | needs | may have | what happens |\n|---|---|---|---|"}
_BETWEEN = re.compile(r"(?<=<!-- keys: )(\w+) -->\n.*?(?=\n<!-- end of keys -->)", re.DOTALL)


def written(page: str) -> str:
    """Give a page with its tables of keys as they should be."""

    def table(found: re.Match[str]) -> str:
        rows = "\n".join(ROWS[page][found[1]])
        return f"{found[1]} -->\n\n{_HEADS.get(found[1], _HEAD)}\n{rows}\n"

    return _BETWEEN.sub(table, (FOLDER / page).read_text(encoding="utf-8"))


def names(page: str) -> list[str]:
    """List the tables of keys that a page has."""
    return [found[1] for found in _BETWEEN.finditer((FOLDER / page).read_text(encoding="utf-8"))]


COMMANDS = "reference/commands.md"
RUN_FOLDER = "reference/run-folder.md"
_COLUMNS = re.compile(r"(?<=<!-- columns: )(\w+) -->\n.*?(?=\n<!-- end of columns -->)", re.DOTALL)


def run_folder_page() -> str:
    """Give the page of run folders with the columns as their rows declare them."""

    def table(found: re.Match[str]) -> str:
        rows = "\n".join(f"| `{column.name}` | {column.meaning} |" for column in COLUMNS[found[1]])
        return f"{found[1]} -->\n\n| column | meaning |\n|---|---|\n{rows}\n"

    return _COLUMNS.sub(table, (FOLDER / RUN_FOLDER).read_text(encoding="utf-8"))


_SECTION = re.compile(r"^## `(leasehold [\w -]+)`\n\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_OPTIONS = re.compile(r"(?:^[\w ,]+:\n\n)?^\| option \| meaning \|\n(?:\|.*\n)+\n?", re.MULTILINE)


def commands(group: Any = None, name: str = "leasehold") -> Iterator[tuple[str, Any]]:
    """Every command by its full name, and groups that do something by themselves."""
    command = group or typer.main.get_command(app)
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")
    if not hasattr(command, "commands") or (group is not None and any(_options(command))):
        yield name, command


def _options(command: Any) -> Iterator[Any]:
    """Give the options of a command, but for ``--json``, which every command has, and those that help itself."""
    for parameter in command.params:
        if parameter.opts[0].startswith("--") and parameter.opts[0] not in ("--json", "--help"):
            yield parameter


def _row(option: Any) -> str:
    words = f"{option.opts[0]} {option.metavar or ''}".strip().replace("|", "\\|")
    notes = [option.help.rstrip(".")]
    if option.required:
        notes.append("required")
    elif not option.is_flag and option.show_default not in (False, None):
        default = option.show_default if isinstance(option.show_default, str) else option.default
        notes += [f"default {default}"] if default not in (None, "", ()) else []
    meaning = "; ".join(notes).replace("|", "\\|")
    return f"| `{words}` | {meaning} |"


def command_tables(command: Any) -> str:
    """Write the options of a command as tables, one for each panel of its help."""
    panels: dict[str, list[str]] = {"": []}
    for option in _options(command):
        panels.setdefault(getattr(option, "rich_help_panel", None) or "", []).append(_row(option))
    head = "| option | meaning |\n|---|---|\n"
    return "".join(
        (f"{panel}:\n\n" if panel else "") + head + "\n".join(rows) + "\n\n" for panel, rows in panels.items() if rows
    )


def commands_page() -> str:
    """Give the page of commands with the options as they are."""
    known = dict(commands())

    def section(found: re.Match[str]) -> str:
        if found[1] not in known:
            return found[0]
        tables, text = command_tables(known[found[1]]), found[2]
        first = _OPTIONS.search(text)
        at = len(text) if first is None else first.start()
        after = _OPTIONS.sub("", text[at:])
        return f"## `{found[1]}`\n\n{text[:at]}{tables}{after}"

    return _SECTION.sub(section, (FOLDER / COMMANDS).read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in ROWS:
        (FOLDER / name).write_text(written(name), encoding="utf-8")
    (FOLDER / COMMANDS).write_text(commands_page(), encoding="utf-8")
    (FOLDER / RUN_FOLDER).write_text(run_folder_page(), encoding="utf-8")
    (FOLDER / PAGE).write_text(errors_page(), encoding="utf-8")
