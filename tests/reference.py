"""The tables of keys in the documentation, written from the declarations: `python -m tests.reference`.

A page has each table between two markers, ``<!-- keys: NAME -->`` and ``<!-- end of keys -->``.
"""

import re
from pathlib import Path
from typing import Any

from leasehold.configuration.agreements import AGREEMENT, RULES
from leasehold.configuration.declaration import Table
from leasehold.configuration.tables import DOMAIN, GATEWAY, SHARING, SHARING_OF_RUN
from leasehold.configuration.terms import OVERHEAD, TERMS
from leasehold.service.auth.issuers import ISSUER
from leasehold.service.config import (
    CLUSTER,
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
from leasehold.service.drivers.emulated.nodes import ALIKE
from leasehold.simulation.scenario import spec
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
        "cluster": CLUSTER.reference(),
        "defaults": TERMS.reference(default_terms()),
        "overhead": OVERHEAD.reference(),
        "emulated": OPTIONS["emulated"].reference(),
        "nodes": ALIKE.reference(),
        "issuer": ISSUER.reference(),
    },
    "howto/virtual-machines.md": {"qemu": OPTIONS["qemu"].reference()},
    "howto/slurm.md": {"slurm": OPTIONS["slurm"].reference()},
    "howto/libvirt.md": {"libvirt": OPTIONS["libvirt"].reference()},
    "howto/clouds.md": {"ec2": OPTIONS["ec2"].reference()},
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
            *_rows(spec.LOG_STREAM, "name", "load", "domain", "claims"),
            *spec.MIX.reference(),
        ],
        "log": [
            *_rows(spec.LOG_STREAM, "log", "format", "site", "cluster_by"),
            *spec.MADE_CLUSTERS.reference(),
            *_rows(spec.LOG_STREAM, "external", "size", "overrun", "memory_mib", "consumer_by"),
            *spec.WINDOW.reference(),
        ],
        "together": TOGETHER.reference(),
    },
}
"""The rows of each table of keys, by its page below ``docs`` and its name there."""

_HEAD = "| key | meaning | values | default |\n|---|---|---|---|"
_BETWEEN = re.compile(r"(?<=<!-- keys: )(\w+) -->\n.*?(?=\n<!-- end of keys -->)", re.DOTALL)


def written(page: str) -> str:
    """Give a page with its tables of keys as they should be."""

    def table(found: re.Match[str]) -> str:
        rows = "\n".join(ROWS[page][found[1]])
        return f"{found[1]} -->\n\n{_HEAD}\n{rows}\n"

    return _BETWEEN.sub(table, (FOLDER / page).read_text(encoding="utf-8"))


def names(page: str) -> list[str]:
    """List the tables of keys that a page has."""
    return [found[1] for found in _BETWEEN.finditer((FOLDER / page).read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for name in ROWS:
        (FOLDER / name).write_text(written(name), encoding="utf-8")
