"""The documentation runs: every page is played (`tests.playing`), and references say what the code says."""

import os
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from tests.error_reference import REMEDIES, errors_page, expectations
from tests.playing import BACKGROUND, Block, blocks, play, play_block
from tests.reference import COMMANDS, ROWS, commands, commands_page, names, run_folder_page, written
from tests.service.drivers.qemu.machines import end_machines
from typer.main import get_command

from leasehold.analysis.measures import COALLOCATION_CATALOGUE
from leasehold.analysis.metrics import CATALOGUE
from leasehold.cli.live.names import LEASE_STATES
from leasehold.cli.main import app
from leasehold.configuration.job_description.description import NOT_SERVED, read_fields
from leasehold.jobs.job import FAULT_SENTENCES, JobReason
from leasehold.jobs.job import sentence as of_job
from leasehold.matching.verdict import Why
from leasehold.matching.verdict import sentence as of_matching
from leasehold.model.errors import InvalidField
from leasehold.model.reason import Reason, sentence
from leasehold.model.tables import TABLES
from leasehold.protocol.problems import Kind
from leasehold.service.api import routers
from leasehold.service.api.routers.dashboard import ICON
from leasehold.service.auth.permissions import PERMISSIONS
from leasehold.service.auth.principal import Role
from leasehold.simulation.scenario.parse import scenario_from_dict

REPOSITORY = Path(__file__).resolve().parent.parent
METRIC = re.compile(r"^\| `(?P<key>\w+)` \| (?P<rest>.+) \|$", re.MULTILINE)

PAGES = sorted(
    page for pattern in ("README.md", "docs/**/*.md") for page in REPOSITORY.glob(pattern) if "_build" not in page.parts
)


def case(page: Path) -> Any:
    """A page to be played: one on which something is typed takes its time, and only root can run a Slurm."""
    text = page.read_text(encoding="utf-8")
    is_played = any(block.file == BACKGROUND or block.language == "console" for block in blocks(text))
    marks = [pytest.mark.docs] if is_played else []
    if "python -m leasehold.testing.slurm" in text:
        cannot = os.geteuid() != 0 and os.environ.get("CI") != "true"
        marks.append(pytest.mark.skipif(cannot, reason="only root can run a private Slurm"))
    return pytest.param(page, id=page.relative_to(REPOSITORY).as_posix(), marks=marks)


@pytest.mark.parametrize("page", [case(page) for page in PAGES])
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    try:
        play(page.read_text(encoding="utf-8"), tmp_path)
    finally:
        end_machines(tmp_path)  # those of a page that went wrong: they outlive their gateway


def test_the_run_folder_page_has_the_columns_as_they_are_declared() -> None:
    page = (REPOSITORY / "docs" / "reference" / "run-folder.md").read_text(encoding="utf-8")
    assert re.findall(r"^<!-- columns: (\w+) -->$", page, re.MULTILINE) == list(TABLES)
    assert page == run_folder_page(), "python -m tests.reference writes them anew"


def test_the_metrics_page_is_the_catalogue() -> None:
    page = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    written = {found["key"]: found["rest"] for found in METRIC.finditer(page)}
    assert written == {
        m.key: f"{m.title} | {m.unit} | {m.meaning}{f' {m.source}.' if m.source else ''}"
        for m in (*CATALOGUE.values(), *COALLOCATION_CATALOGUE.values())
    }


def test_the_reasons_page_has_every_reason_with_its_sentence() -> None:
    page = (REPOSITORY / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \| (.*) \|$", page, re.MULTILINE)
    assert {reason: said for reason, said, _ in rows} == {reason: sentence(reason) for reason in Reason}


def test_the_reasons_page_says_what_helps_wherever_a_request_did_not_get_its_way() -> None:
    page = (REPOSITORY / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    went_well = {Reason.COMPLETED, Reason.CANCELLED_BY_USER}
    for section in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| `([\w-]+)` \| (?:.+) \| (.*) \|$", section, re.MULTILINE)
        assert section.startswith("Now\n") or all(cure or reason in went_well for reason, cure in rows)


def test_the_jobs_page_has_every_reason_verdict_and_fault_with_its_words() -> None:
    page = (REPOSITORY / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", page, re.MULTILINE)
    reasons = [(reason.value, of_job(reason)) for reason in JobReason]
    verdicts = [(why.value, of_matching(why)) for why in Why]
    assert written == reasons + verdicts + list(FAULT_SENTENCES.items())


def test_the_jobs_page_has_every_field_of_a_description() -> None:
    page = (REPOSITORY / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE)) - {"Description"}
    with pytest.raises(InvalidField) as caught:
        read_fields({"Executable": "a", "ExecutionTime": 1, "x": 1}, MagicMock())
    known = re.findall(r"[A-Z]\w+", caught.value.expected)
    assert written == set(known) - {"Description", "JobAnnotation"}
    assert set(re.findall(r"`(\w+)`", page.split("and are refused:")[1].split("##")[0])) == NOT_SERVED


def test_the_commands_page_has_every_command_with_its_options() -> None:
    page = (REPOSITORY / "docs" / COMMANDS).read_text(encoding="utf-8")
    assert set(re.findall(r"^## `(leasehold [\w -]+)`$", page, re.MULTILINE)) == dict(commands()).keys()
    assert page == commands_page(), "make keys writes it"


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(REPOSITORY).as_posix()) for page in PAGES])
def test_every_command_that_a_page_mentions_exists_with_its_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [f"{line}: {problem}" for line in mentioned(text) if (problem := problem_of(line))] == []


def mentioned(page: str) -> list[str]:
    """Find the commands of a page: in prose, between backticks; in blocks, on lines of their own."""
    inline = re.findall(
        r"(?<!`)`(leasehold [^`\n]+)`(?!`)", re.sub(r"```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    )
    shown = "".join(block.text for block in blocks(page) if block.language in {"console", "sh"})
    return inline + re.findall(r"^(?:\$ )?(leasehold [^\n]+)", re.sub(r"\\\n", " ", shown), re.MULTILINE)


@cache
def whole_command() -> Any:
    """Give `leasehold` with all its commands; to make it takes as long as many a test."""
    return get_command(app)


def problem_of(line: str) -> str:
    """Say what is wrong with a command line: a command or an option that does not exist; "" if nothing is."""
    words = re.split(r" -- | (?:&&|[|&>#;]) |&$|\)", re.sub(r"\$\([^)]*\)", "X", line))[0].split()[1:]
    command: Any = whole_command()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if words and hasattr(command, "commands") and re.fullmatch(r"[a-z-]+", words[0]) and not words[0].startswith("-"):
        return f"no command {words[0]}"
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    options = {word.split("=")[0].strip(",") for word in words if re.match(r"--?[a-z]", word)}
    return f"no option {', '.join(sorted(options - known))}" if options - known else ""


def test_every_command_answers_with_json() -> None:
    group = {name for name, command in commands() if hasattr(command, "commands")}
    for name, command in commands():
        options = {parameter.opts[0] for parameter in command.params}
        assert "--json" in options or name in group, name


def test_the_commands_page_has_every_state_with_its_code() -> None:
    page = (REPOSITORY / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| `([A-Z]+)` \| (\w+) \| (.+) \|$", page, re.MULTILINE)
    assert written == [(code, state, meaning) for state, (code, meaning) in LEASE_STATES.known.items()]


def reference(name: str) -> str:
    return (REPOSITORY / "docs" / "reference" / name).read_text(encoding="utf-8")


class TestTheTablesOfKeys:
    @pytest.mark.parametrize("page", ROWS)
    def test_are_those_of_the_declarations(self, page: str) -> None:
        assert names(page) == list(ROWS[page])
        assert (REPOSITORY / "docs" / page).read_text("utf-8") == written(page), (
            "python -m tests.reference writes them anew"
        )


def test_the_page_of_errors_is_current() -> None:
    assert reference("errors.md") == errors_page(), "make keys writes it"
    assert REMEDIES.keys() == set(Kind)
    listed = {key for key, _ in expectations()}
    assert {"service.port", "limits.body_kib", "cluster.slots", "cluster.repair", "cluster.qemu.image"} <= listed


def test_the_service_page_has_every_variable_of_our_own() -> None:
    sources = (REPOSITORY / "src" / "leasehold").rglob("*.py")
    known = {name for file in sources for name in re.findall(r'"(LEASEHOLD_[A-Z_]+)"', file.read_text("utf-8"))}
    section = reference("service.md").split("## Environment\n")[1]
    assert set(re.findall(r"LEASEHOLD_[A-Z_]+", section)) == known


def test_the_api_page_has_every_kind_of_problem() -> None:
    written = re.findall(r"^\| `([\w-]+)` \| (\d+) \| (.+) \|$", reference("api.md"), re.MULTILINE)
    assert written == [(kind.urn.rpartition(":")[2], str(kind.status), kind.title) for kind in Kind]


def test_the_api_page_says_who_may_do_what() -> None:
    head, *rows = re.findall(r"^\| (?:permission|`\w+\.[\w-]+`) \|.*$", reference("api.md"), re.MULTILINE)
    roles = re.findall(r"`([\w-]+)`", head)
    written = {
        cells[0].strip("` "): {role: cell.strip() for role, cell in zip(roles, cells[1:], strict=True) if cell.strip()}
        for cells in (row.strip("|").split("|") for row in rows)
    }
    given = {
        permission.value: {
            role.value: ", ".join(str(part.name).lower() for part in scope) for role, scope in given.items()
        }
        for permission, given in PERMISSIONS.items()
    }
    assert roles == [role.value for role in Role]
    assert written == given


def test_the_api_page_names_every_route() -> None:
    page = reference("api.md")
    written = set(re.findall(r"`(?:GET|POST|PUT|DELETE) (/[^`?]*)`", page)) | {"/v1/sites/{name}/resume"}
    source = REPOSITORY / "src" / "leasehold" / "service" / "api" / "routers"
    modules = (import_module(f"{routers.__name__}.{file.stem}") for file in source.glob("[!_]*.py"))
    found = (one for module in modules for one in vars(module).values() if isinstance(one, APIRouter))
    served = {route.path for router in found for route in router.routes if isinstance(route, APIRoute)} - {ICON}
    assert {re.sub(r"{\w+}", "{}", path) for path in written - {"/v1/openapi.json"}} == {
        re.sub(r"{\w+(:\w+)?}", "{}", path) for path in served
    }


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_every_link_of_a_front_page_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https://)([^)#]+)", (REPOSITORY / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (REPOSITORY / link).is_file()] == []


SCENARIOS = [
    pytest.param(page, block, id=f"{page.name}-{block.file}")
    for page in PAGES
    for block in blocks(page.read_text(encoding="utf-8"))
    if block.language == "toml" and "[[stream]]" in block.text
]


@pytest.mark.parametrize(("page", "scenario"), SCENARIOS)
def test_every_scenario_shown_is_accepted(page: Path, scenario: Block, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            play_block(block, tmp_path)
    assert scenario_from_dict(tomllib.loads(scenario.text), tmp_path).streams


class TestThisTest:
    """A check of examples that cannot fail would be worth nothing."""

    def test_notices_a_command_or_an_option_that_does_not_exist(self) -> None:
        assert mentioned("`leasehold sim run x` and\n```console\n$ leasehold demo \\\n --quick\n```\n") == [
            "leasehold sim run x",
            "leasehold demo   --quick",
        ]
        assert problem_of("leasehold sim walk x") == "no command walk"
        assert problem_of("leasehold sim run x --sed 1 --seed=2 -- --other") == "no option --sed"
        assert not problem_of("leasehold lease list --all | head")

    def test_notices_a_wrong_output(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="it prints"):
            play("```console\n$ echo one\ntwo\n```\n", tmp_path)

    def test_notices_output_that_the_page_leaves_out(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="it prints"):
            play("```console\n$ true\n$ echo one\n```\n", tmp_path)

    def test_writes_a_named_block_to_its_file(self, tmp_path: Path) -> None:
        play("```toml a.toml\nx = 1\n```\n\n```console\n$ cat a.toml\nx = ...\n```\n", tmp_path)

    def test_says_why_a_gateway_did_not_come(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match=r"no gateway came of\s+leasehold serv\s(.|\s)*No such command"):
            play("```sh &\nleasehold serv\n```\n", tmp_path)

    @pytest.mark.docs
    def test_ends_its_gateway_whatever_happens(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="it prints"):
            play(
                "```sh &\nleasehold serve --port 0\n```\n\n```console\n$ leasehold lease list\nno\n```\n",
                tmp_path,
            )
        play("```console\n$ leasehold lease list\nleasehold: no gateway answers at ...\n```\n", tmp_path)


def test_the_stops_of_the_tour_exist() -> None:
    page = (REPOSITORY / "docs" / "explanation" / "tour.md").read_text(encoding="utf-8")
    stops = re.findall(r"`([a-z_/]+\.py)`: `([\w.]+)`", page)
    assert len(stops) >= 12
    for file, name in stops:
        module = import_module("leasehold." + file.removesuffix(".py").replace("/", "."))
        target: Any = module
        for part in name.split("."):
            target = getattr(target, part)
    files = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page)
    assert all((REPOSITORY / "src" / "leasehold" / file).is_file() for file in files)
