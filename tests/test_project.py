"""What is true of the whole tree: its style, its promises to a stranger, and what a start costs."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "leasehold"
MODULES = sorted(PACKAGE.rglob("*.py"))
DECISION_CORE = ("gateway", "jobs", "leasing", "matching", "model", "routing", "sharing")
PIN = re.compile(r"^([\w.-]+)==\S+.*\\\n    --hash=sha256:", re.MULTILINE)
BUILT_WHERE_THEY_ARE = {"libvirt-python"}
"""Has no wheel, and must be as old as the library of the machine: the tests build it (`CONTRIBUTING.md`)."""

HEAVY = {"altair", "numpy", "polars", "scipy", "vl_convert"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(read(path))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~ ;\[]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


class TestReadable:
    def test_every_module_has_a_docstring(self) -> None:
        bare = [name_of(path) for path in MODULES if not re.match(r'(#.*\n|\s)*r?"""', read(path))]
        assert bare == []

    def test_no_module_is_a_drawer_for_everything(self) -> None:
        drawers = {"common", "helpers", "misc", "util", "utils"}
        assert [name_of(path) for path in MODULES if path.stem in drawers] == []


class TestDecisionCore:
    """The import contracts keep modules out; this keeps the built-in ways out."""

    @pytest.mark.parametrize("part", DECISION_CORE)
    def test_calls_nothing_that_reaches_outside(self, part: str) -> None:
        found = [
            f"{name_of(path)}:{node.lineno} {node.func.id}()"
            for path in (PACKAGE / part).rglob("*.py")
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"exec", "eval", "input", "open", "print"}
        ]
        assert found == []


class TestStranger:
    """What someone meets who has only this tree, Python, git and make."""

    @pytest.mark.parametrize("command", ["make demo", "make test"])
    def test_the_readme_names_the_two_commands(self, command: str) -> None:
        assert command in read(REPOSITORY / "README.md")
        assert f"\n{command.split()[1]}:" in read(REPOSITORY / "Makefile")

    def test_the_lock_pins_every_dependency_by_hash(self) -> None:
        project = tomllib.loads(read(REPOSITORY / "pyproject.toml"))
        groups = [
            project["build-system"]["requires"],
            project["project"]["dependencies"],
            *project["project"]["optional-dependencies"].values(),
            *([entry for entry in group if isinstance(entry, str)] for group in project["dependency-groups"].values()),
        ]
        wanted = set().union(*map(requirement_names, groups))
        pinned = set(PIN.findall(read(REPOSITORY / "requirements.lock")))
        assert wanted - {"leasehold"} - BUILT_WHERE_THEY_ARE <= pinned  # one extra includes another

    def test_the_lock_leaves_the_choice_of_index_to_the_machine(self) -> None:
        assert not re.search(r"://|--(extra-)?index|--find-links", read(REPOSITORY / "requirements.lock"))

    def test_no_text_knows_the_machine_that_it_was_written_on(self) -> None:
        machine = re.compile(r"/(?:home|root|Users|work)/\w|/tmp/\w")
        texts = [
            path
            for pattern in (
                "*.md",
                "docs/**/*.*",
                "src/**/*.*",
                "tests/**/*.*",
                "bench/**/*.*",
                ".ci/*",
                "Makefile",
            )
            for path in REPOSITORY.glob(pattern)
            if path.is_file() and "_build" not in path.parts and path.suffix in {"", ".md", ".py", ".toml"}
        ]
        found = [
            f"{name_of(path)}:{number}"
            for path in texts
            for number, line in enumerate(read(path).splitlines(), start=1)
            if machine.search(line)
        ]
        assert found == []


class TestStart:
    def test_help_loads_nothing_heavy(self) -> None:
        script = "import sys, leasehold.cli.main; print(*sys.modules)"
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert HEAVY & set(result.stdout.split()) == set()

    def test_the_version_is_said_once(self) -> None:
        said = [path for path in MODULES if re.search(r"^__version__ = ", read(path), re.MULTILINE)]
        assert said == [PACKAGE / "__init__.py"]


def _words_of(name: str) -> set[str]:
    """The words of a name, in the singular and in the plural's stem."""
    words = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())
    return {form for word in words for form in (word, word.removesuffix("s"))}


@pytest.mark.soak
def test_no_name_uses_a_word_that_the_glossary_calls_retired() -> None:
    page = (REPOSITORY / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ", page.split("## Retired words")[1], re.MULTILINE)
    retired = {word.strip() for row in rows[1:] for word in row.split(",")}
    assert len(retired) > 20
    named: dict[str, str] = {}
    for path in MODULES:
        names = {path.stem}
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    names.add(name)
        named |= dict.fromkeys(names, str(path))
    assert {name: path for name, path in named.items() if _words_of(name) & retired} == {}
