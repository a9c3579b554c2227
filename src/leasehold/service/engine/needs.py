"""What a job needs, as the store keeps it: JSON with the names of `leasehold.matching.needs`."""

import json
from dataclasses import asdict
from typing import Any

from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software


def needs_text(needs: Needs) -> str:
    """Write needs down; software is written as users write it."""
    told: dict[str, Any] = {
        **asdict(needs.amounts),
        "cpu_mhz": needs.cpu_mhz,
        "nodes": needs.nodes,
        "execution_ms": needs.execution_ms,
        "software": [str(one) for one in needs.software],
        "inputs": [asdict(file) for file in needs.inputs],
    }
    return json.dumps(told)


def needs_of(text: str) -> Needs:
    """Read what `needs_text` wrote."""
    told = json.loads(text)
    return Needs(
        amounts=Amounts(told["cores"], told["memory_mib"], told["disk_mib"]),
        execution_ms=told["execution_ms"],
        nodes=told["nodes"],
        cpu_mhz=told["cpu_mhz"],
        software=tuple(software(one) for one in told["software"]),
        inputs=tuple(InputFile(**file) for file in told["inputs"]),
    )
