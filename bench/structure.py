"""How the source is built: ``python -m bench.structure [--json FILE]``.

Counts files and lines, the places that write the fields of a noun out by hand, names that stand for several
things, import cycles, and the files and calls that one guest lease passes from POST until its machines were
seen. The figures describe the structure; nothing here is a limit that the build enforces.

A place that lists a noun is a class, a literal (dict, list, tuple, set), a call or the parameters of a
function that names more than a third of the noun's fields. Units and suffixes of moments do not count in the
comparison: ``duration_ms`` and ``duration_s`` are one field. A place inside another counts once.
"""

import argparse
import ast
import asyncio
import json
import sqlite3
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx2

from leasehold.service.api.app import create_app
from leasehold.service.api.settings import ApiSettings
from leasehold.service.auth.authenticator import Authenticator
from leasehold.service.auth.jwts import Jwts
from leasehold.service.auth.limits import RateLimit
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import Tokens
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.federation import Federation
from leasehold.service.metrics import Metrics
from leasehold.service.store.store import open_store

SOURCE = Path(__file__).resolve().parent.parent / "src" / "leasehold"
PACKAGE = "leasehold"

NOUNS: dict[str, str] = {
    "lease": "id name type vms duration memory consumer group home site state reason submit ready deadline"
    " start end preemptions migrations domain claims coallocation job command held_since first_start work_left span",
    "job": "id name consumer group command needs deadline type backup reliability restarts state reason"
    " submit end attempts result exit_status output",
    "agreement": "name provider consumer share begin end parent rules limit standing published note hours penalty",
    "site": "name slots speed_mips driver lends can_suspend can_migrate status local_vms guest_vms"
    " waiting_local waiting_guests drained last_seen",
    "node": "name site cores memory disk free_cores free_memory free_disk software os arch virtual seen",
    "order": "id number lease site verb incarnation status attempts next_try problem vms",
    "usage": "lease site consumer provider agreement begin end vms work kind",
}
_SUFFIXES = ("_ms", "_s", "_at", "_mib", "_id", "_name")
_PREFIXES = ("lease_", "requested_", "planned_")


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the source, read once."""

    name: str
    path: Path
    lines: int
    tree: ast.Module


@dataclass(slots=True)
class Way:
    """The calls within the package that followed one request, and the files in which they were."""

    calls: int = 0
    functions: set[tuple[str, int]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


def modules() -> list[Module]:
    """Read the whole source."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path, len(text.splitlines()), ast.parse(text)))
    return found


# --- nouns -----------------------------------------------------------------------------------------------


def places(noun: str, source: list[Module]) -> list[str]:
    """List where the fields of a noun are written out, as ``file:line``."""
    fields = set(NOUNS[noun].split())
    return [
        f"{module.path.relative_to(SOURCE)}:{line}" for module in source for line in _places_in(module.tree, fields)
    ]


def _places_in(node: ast.AST, fields: set[str]) -> Iterator[int]:
    """Find the innermost places, and of those within each other the outermost that is more than their sum."""
    for child in ast.iter_child_nodes(node):
        if len({_plain(name) for name in _names(child)} & fields) > len(fields) / 3:
            yield child.lineno  # type: ignore[attr-defined]  # whatever names anything has a line
        else:
            yield from _places_in(child, fields)


def _plain(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.removesuffix("ted") if name == "submitted" else name


def _names(node: ast.AST) -> list[str]:
    """List the names that a node writes down one beside the other."""
    match node:
        case ast.ClassDef():
            return [
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            ]
        case ast.Dict():
            return [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        case ast.Call():
            words = [one.arg for one in node.keywords if one.arg]
            return words + [name for one in node.args for name in _own_name(one)]
        case ast.List() | ast.Tuple() | ast.Set():
            return [name for one in node.elts for name in _own_name(one)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = node.args
            return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return []


def _own_name(node: ast.expr) -> list[str]:
    """Give what an element is called: a text, an attribute, a variable, or what a call is about."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return [name]
        case ast.Call(args=[first, *_]):
            return _own_name(first)
        case ast.Subscript(slice=inner):
            return _own_name(inner)
    return []


# --- names and imports -----------------------------------------------------------------------------------


def shared_names(source: list[Module]) -> tuple[dict[str, int], dict[str, int]]:
    """Count the names of modules and of classes that stand for more than one."""
    of_modules = Counter(module.path.stem for module in source if module.path.stem != "__init__")
    of_classes = Counter(
        node.name for module in source for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    )
    return _several(of_modules), _several(of_classes)


def _several(counted: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counted.most_common() if count > 1 and not name.startswith("_")}


def imports(source: list[Module]) -> dict[str, set[str]]:
    """Give the modules that each module imports, wherever it does: in functions and for annotations, too."""
    known = {module.name for module in source}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for module in source:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[module.name] |= {inner if inner in known else node.module} & known
            elif isinstance(node, ast.Import):
                graph[module.name] |= {alias.name for alias in node.names} & known
        graph[module.name].discard(module.name)
    return graph


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Find the sets of modules that import each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10 * len(graph)))
    for name in sorted(graph):
        if name not in index:
            visit(name)
    sys.setrecursionlimit(limit)
    return found


def read_once(source: list[Module], graph: dict[str, set[str]]) -> int:
    """Count the files that exactly one other file imports."""
    readers: dict[str, set[str]] = defaultdict(set)
    for reader, read in graph.items():
        for name in read:
            readers[name].add(reader)
    return sum(len(readers[module.name]) == 1 for module in source if module.path.stem not in {"__init__", "__main__"})


# --- the way of a lease ----------------------------------------------------------------------------------


def way_of_a_lease() -> Way:
    """Follow the fourth guest lease from POST until its machines were seen; nothing else is going on."""
    way, following = Way(), threading.Event()
    root = str(SOURCE)

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and following.is_set() and frame.f_code.co_filename.startswith(root):
            way.calls += 1
            way.functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
            way.files.add(frame.f_code.co_filename)

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        with TemporaryDirectory(prefix="leasehold-structure-") as folder:
            asyncio.run(_lease(Path(folder), following))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return way


async def _lease(folder: Path, following: threading.Event) -> None:
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    rarely = ServiceSpec(check_every_ms=0, reconcile_every_ms=86_400_000)
    config = ServiceConfig(clusters=(SiteSpec("das3", 64), SiteSpec("lyon", 32)), service=rarely)
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        tokens = Tokens(store, now_ms)
        _, token = tokens.issue(Principal("physics", frozenset({Role.MEMBER})))
        authenticator = Authenticator(tokens, Jwts((), now_ms), failures=RateLimit(0))
        async with Federation.open(config, store, folder, now_ms, Metrics()) as federation:
            app = create_app(federation, authenticator, tokens, ApiSettings(version="0", rate=RateLimit(0)))
            transport = httpx2.ASGITransport(app)
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
                for number in range(4):
                    if number == 3:  # noqa: PLR2004 - what is made once has been made by then
                        await asyncio.sleep(3)
                        following.set()
                    body = {"type": "suspendable", "vms": 2, "duration_s": 3600}
                    answer = await client.post("/v1/leases", json=body)
                    await _until_running(folder / "store.db", answer.json()["id"])
                following.clear()


async def _until_running(file: Path, lease_id: int) -> None:
    """Wait without calling anything that is counted."""
    with closing(sqlite3.connect(file)) as connection:
        state = "SELECT state FROM leases WHERE id = ?"
        while connection.execute(state, (lease_id,)).fetchone() != ("running",):  # noqa: ASYNC110 - no journal has it
            await asyncio.sleep(0.02)


# --- all of it -------------------------------------------------------------------------------------------


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """Take all figures."""
    source = modules()
    graph = imports(source)
    of_modules, of_classes = shared_names(source)
    listed = {noun: places(noun, source) for noun in NOUNS}
    say(f"{len(source)} files, {sum(module.lines for module in source)} lines")
    say(f"{read_once(source, graph)} files are imported by exactly one other")
    for noun, where in listed.items():
        say(f"{noun}: written out in {len(where)} places")
    say(f"names of several modules: {len(of_modules)}, of several classes: {len(of_classes)}")
    circles = cycles(graph)
    say(f"import cycles: {len(circles)} of {[len(one) for one in circles]} modules")
    way = way_of_a_lease()
    say(f"a guest lease: {way.calls} calls of {len(way.functions)} functions in {len(way.files)} files")
    return {
        "files": len(source),
        "lines": sum(module.lines for module in source),
        "read_once": read_once(source, graph),
        "places": listed,
        "module_names": of_modules,
        "class_names": of_classes,
        "cycles": circles,
        "way": {"calls": way.calls, "functions": len(way.functions), "files": sorted(way.files)},
    }


def main() -> None:
    """Measure, print, and write everything down where asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    given = parser.parse_args()
    figures = measure(print)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
