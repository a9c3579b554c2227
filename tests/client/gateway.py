"""A gateway for tests: it answers over a real socket as it was told, and remembers what was asked."""

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.waiting import PATIENCE_S

MOMENT = "2026-11-21T10:43:36.120Z"


@dataclass(frozen=True)
class Reply:
    """An answer: JSON, or text as it is."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


@dataclass(frozen=True)
class Cut:
    """No answer: the connection is closed once the request was read."""


@dataclass(frozen=True)
class Stream:
    """Server-sent events as text; then the connection is ``cut``, or the stream properly ended."""

    text: str
    cut: bool = False


@dataclass(frozen=True)
class Held:
    """An answer that is given once something has happened, however long that takes."""

    answer: "Reply | Cut | Stream"
    until: Event


@dataclass(frozen=True)
class Asked:
    """What was asked; the names of the headers are in small letters."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: Any


Step = Reply | Cut | Stream | Held


class Gateway:
    """Gives the answers to a question one after the other, and the last of them for ever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self._steps: dict[tuple[str, str], deque[Step]] = defaultdict(deque)

    def answer(self, method: str, path: str, *steps: Step) -> None:
        self._steps[method, path].extend(steps)

    def step(self, asked: Asked) -> Step:
        self.asked.append(asked)
        steps = self._steps[asked.method, asked.path]
        if not steps:
            return problem(404, "not-found", f"no answer for {asked.method} {asked.path}")
        return steps.popleft() if len(steps) > 1 else steps[0]


def problem(status: int, slug: str, detail: str, **more: Any) -> Reply:
    headers = more.pop("headers", {})
    told = {
        "type": f"urn:leasehold:problem:{slug}",
        "title": slug,
        "status": status,
        "detail": detail,
        **more,
    }
    return Reply(status, told, headers, kind="application/problem+json")


def lease(lease_id: int = 42, **values: Any) -> dict[str, Any]:
    """A lease on the wire."""
    return {
        "id": lease_id,
        "name": "",
        "type": "suspendable",
        "vms": 2,
        "duration_s": 3600,
        "asked_duration_s": None,
        "walltime_s": None,
        "memory_mib": 1024,
        "cores": 1,
        "gpus": "",
        "nodes": [],
        "consumer": "physics",
        "project": "",
        "group": "",
        "local": False,
        "home": None,
        "site": "das3",
        "global_id": "",
        "came_by": [],
        "onward": [],
        "state": "running",
        "reason": "room-free",
        "explanation": "got free room at once",
        "submitted_at": MOMENT,
        "ready_at": MOMENT,
        "deadline_at": None,
        "planned_start_at": None,
        "expected": None,
        "started_at": MOMENT,
        "ends_at": "2026-11-21T11:43:36.120Z",
        "ended_at": None,
        "preemptions": 0,
        "migrations": 0,
        "restarts": 0,
        "max_restarts": None,
        "domain": "",
        "claims": {},
        "checkpointed_at": None,
        "image": "",
        "ssh_key": "",
        "notify": "",
        "coallocation": None,
        "job": None,
        "command": ["sh", "run.sh"],
    } | values


def site(name: str = "das3", **values: Any) -> dict[str, Any]:
    """A site on the wire."""
    return {
        "name": name,
        "slots": 64,
        "speed_mips": 1,
        "status": "up",
        "driver": "emulated",
        "capabilities": {"suspend": True, "migrate": True, "checkpoint": False, "commands": True, "login": False},
        "vms": {"local": 16, "guests": 20, "free": 28},
        "waiting": {"local": 0, "guests": 3},
        "drained_by": "",
        "note": "",
        "last_seen_at": MOMENT,
        "problem": "",
        "overheads": [],
        "domain": "",
        "images": [],
        "resources": {},
        "allows": "",
    } | values


def attempt(number: int = 1, **values: Any) -> dict[str, Any]:
    """An attempt of a job on the wire."""
    return {
        "number": number, "lease": 42, "site": "das3", "nodes": ["das3/n1"], "image": "", "virtual": False,
        "backup": False, "state": "running", "fault": "", "explanation": "", "detail": "", "exit_status": None,
        "ordered_at": MOMENT, "started_at": MOMENT, "ended_at": None,
    } | values  # fmt: skip


def job(job_id: int = 7, **values: Any) -> dict[str, Any]:
    """A job on the wire."""
    needs = {
        "cores": 2, "memory_mib": 2048, "disk_mib": 0, "cpu_mhz": 0, "gpus": "", "nodes": 1, "need": 0,
        "software": ["python3-numpy >= 1.24"], "inputs": [], "execution_s": 600,
    }  # fmt: skip
    return {
        "id": job_id, "name": "survey", "state": "running", "reason": "runs-on-nodes",
        "explanation": "gets nodes that have what it needs", "what": "", "consumer": "physics",
        "group": "", "submitted_at": MOMENT, "deadline": None, "ended_at": None, "expected": None, "next_try_at": None,
        "command": ["python3", "run.py"], "environment": {}, "outputs": [], "array": None, "array_index": None,
        "type": "suspendable", "backup": "none", "reliability": None,
        "surest": None, "needs": needs, "restarts": 3, "restarts_used": 0, "exit_status": None,
        "attempts": [attempt()],
    } | values  # fmt: skip


def change(seq: int, **values: Any) -> dict[str, Any]:
    """A change on the wire."""
    return {
        "seq": seq,
        "at": MOMENT,
        "lease": 42,
        "job": None,
        "site": "das3",
        "what": "start",
        "state": "running",
        "reason": "room-free",
        "explanation": "got free room at once",
        "rule": "conservative",
        "consumer": "physics",
        "detail": {},
    } | values


def event(told: Mapping[str, Any]) -> str:
    """A change as a server-sent event."""
    return f"event: change\nid: {told['seq']}\ndata: {json.dumps(told)}\n\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: Gateway

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        self.close_connection = True
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(content) if content else None
        self._carry_out(self.gateway.step(Asked(self.command, parts.path, parse_qsl(parts.query), headers, body)))

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - http.server looks for these names

    def _carry_out(self, step: Step) -> None:
        if isinstance(step, Held):
            assert step.until.wait(PATIENCE_S)
            step = step.answer
        if isinstance(step, Reply):
            text = step.body if isinstance(step.body, str) else json.dumps(step.body)
            self._head(step.status, {"Content-Type": step.kind, **step.headers}, len(text.encode()))
            self.wfile.write(text.encode())
        elif isinstance(step, Stream):
            self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
            self.wfile.write(f"{len(step.text.encode()):x}\r\n{step.text}\r\n".encode() if step.text else b"")
            self.wfile.write(b"" if step.cut else b"0\r\n\r\n")

    def _head(self, status: int, headers: Mapping[str, str], length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


@contextmanager
def serving() -> Iterator[Gateway]:
    """Serve at a free port of this machine."""
    gateway = Gateway()
    handler = type("Handler", (_Handler,), {"gateway": gateway})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = False  # closing waits for each answer
        gateway.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gateway
        finally:
            server.shutdown()
            thread.join()
