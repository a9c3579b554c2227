"""What a gateway answers about jobs, as the tests of the command line have it."""

from typing import Any

from tests.client.gateway import MOMENT, Gateway, attempt, job

ENDED = "2026-11-21T10:53:36.000Z"
DONE = job(
    state="completed", reason="completed", explanation="ran to its end", ended_at=ENDED, exit_status=0,
    attempts=[attempt(state="succeeded", exit_status=0, ended_at=ENDED)],
)  # fmt: skip
FAILED = job(
    state="failed", reason="job-error", explanation="exited with an error and will not be retried",
    ended_at=ENDED, exit_status=3, attempts=[],
)  # fmt: skip
REFUSED = job(
    state="refused", reason="never-here", attempts=[], ended_at=MOMENT,
    explanation="cannot run anywhere here: it needs a virtual machine too large for any host",
)  # fmt: skip
RESULT = {
    "job": 7,
    "attempt": 1,
    "exit_status": 0,
    "output": "forty-two\n",
    "error": "",
    "files": [],
    "is_whole": True,
    "is_kept": True,
}


def asked(gateway: Gateway) -> Any:
    return gateway.asked[0].body


USUAL = {
    "command": ["run"], "cores": 1, "memory_mib": 256, "disk_mib": 0, "cpu_mhz": 0, "nodes": 1,
    "execution_s": 60, "backup": "none", "type": "suspendable", "restarts": 3,
}  # fmt: skip
