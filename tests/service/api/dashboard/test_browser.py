"""The dashboard in a browser: a preemption as its users see it, and what an accessibility checker finds."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.needing import programs
from tests.service.api.dashboard.browser import Browser, browser
from tests.waiting import until

from leasehold.client import Client, LeaseSpec, Role, TokenSpec

pytestmark = [pytest.mark.machines, pytest.mark.xdist_group("browser")]

CONFIGURATION = """
[defaults.overhead]
suspend_ms_per_gib = 3000
resume_ms_per_gib = 2000

[[cluster]]
name = "mine"
slots = 8
"""
AXE = Path(__file__).with_name("axe.min.js")
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PICTURES = os.environ.get("LEASEHOLD_SCREENSHOTS")
"""Where the pictures of the documentation are written; without it they are taken and thrown away."""


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway in a process of its own."""

    url: str
    dashboard: str
    admin: Client

    def token(self, consumer: str, *roles: Role, sites: tuple[str, ...] = ()) -> str:
        spec = TokenSpec(consumer=consumer, roles=list(roles or (Role.MEMBER,)), sites=list(sites))
        return self.admin.tokens.create(spec).token


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """Serve until the block ends."""
    program = str(Path(sys.executable).with_name("leasehold"))
    command = [program, "serve", "--json", "--port", "0", "--data", str(folder), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "BEARER_"))}
    with (folder.parent / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        try:
            assert process.stdout is not None
            facts = json.loads(b"".join(iter(process.stdout.readline, b"}\n")) + b"}")
            token = Path(facts["token_file"]).read_text(encoding="utf-8").strip()
            with Client(facts["url"], token) as admin:
                yield Served(facts["url"], facts["dashboard"], admin)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("browser")
    with programs():
        started = browser(folder)
        window = started.__enter__()
    try:
        yield window
    finally:
        started.__exit__(None, None, None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    configuration = folder / "leasehold.toml"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    with serving(folder / "data", "--config", str(configuration)) as served:
        yield served


def sign_in(window: Browser, served: Served, token: str) -> None:
    window.look(1280)
    window.log()  # what was complained of before
    window.open(f"{served.url}/sign-in")
    window.type("#token", token)
    window.click("main button")
    window.wait_for("h1", "Overview")


def shows(window: Browser, *texts: str) -> bool:
    """Load the page again, and look whether it says all of this."""
    window.open(window.url)
    said = window.text("main")
    return all(text in said for text in texts)


def test_the_story_of_a_preemption(window: Browser, served: Served) -> None:
    """Submit, wait, run, preempted, explained, resumed, done: all seen by the guest, in the browser."""
    guest = served.token("physics")
    with Client(served.url, served.token("climate", sites=("mine",))) as owner:
        first = owner.leases.submit(LeaseSpec(local=True, vms=8, duration_s=600))
        sign_in(window, served, guest)
        window.click(".who a")
        window.wait_for("h1", "Submit")
        window.type("#vms", "4")
        window.type("#duration_s", "12")
        window.run("document.querySelector('[name=unit]').value = 'seconds'")
        window.type("#name", "sky-survey")
        window.click("main form button.main")
        window.wait_for("h1", "sky-survey")
        lease = int(window.url.rsplit("/", 1)[1].partition("?")[0])
        assert "pending" in window.text(".head")
        assert "waits until enough VMs are free" in window.text(".says")
        owner.leases.cancel(first.id)

        # nothing on the page moves: that something happened is said above it, and shown when asked for
        window.wait_for(".news a", "Show")
        assert "pending" in window.text(".head")
        window.click(".news a")
        until(lambda: shows(window, "It has its machines: it runs"))
        assert "running" in window.text(".head")

        second = owner.leases.submit(LeaseSpec(local=True, vms=6, duration_s=600))
        until(lambda: shows(window, "It was preempted by a local request"))
        told = window.text("ol.story")
        assert "For another consumer's lease" in told
        assert "No other guest had to give way" in told
        until(lambda: shows(window, "It has saved its memory, and holds no machines"))
        owner.leases.cancel(second.id)
    until(lambda: shows(window, "It continues where it stopped"))
    until(lambda: shows(window, "was ended at its requested time") or shows(window, "ran to its end"))
    assert f"Lease {lease}" in window.text("h1")
    assert "Cancel" not in window.text("main")
    assert window.log() == []


PAGES = ("/", "/loans", "/queue", "/timeline", "/leases", "/leases/1?help=1", "/nodes", "/what-if", "/history",
         "/decisions", "/decisions/1", "/submit", "/form/jobs", "/docs",
         "/what-if?type=suspendable&vms=2&duration_s=9&unit=minutes", "/what-if?drain=mine&horizon=1",
         "/leases/99999")  # fmt: skip


def findings(window: Browser) -> list[str]:
    """Let the checker look at the page, and give what it finds, each with its place."""
    if not window.run("return typeof axe === 'object'"):
        window.run(AXE.read_text(encoding="utf-8"))
    script = "axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']}).then(arguments[1])"
    result: dict[str, Any] = window.run_async(script, STANDARDS)
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for one in result["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_an_accessibility_checker_finds_nothing(window: Browser, served: Served, width: int, *, dark: bool) -> None:
    with Client(served.url, served.token("climate", sites=("mine",))) as owner:
        for _ in range(3):
            owner.leases.submit(LeaseSpec(local=True, vms=6, duration_s=60))
        owner.leases.submit(LeaseSpec(type="suspendable", vms=2, duration_s=60))
    sign_in(window, served, served.token("chief", Role.FEDERATION_ADMIN))
    window.look(width, dark=dark)
    found = {}
    for path in PAGES:
        window.open(served.url + path)
        window.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        if problems := findings(window):
            found[path] = problems
        wide = window.run("return document.documentElement.scrollWidth > innerWidth + 1")
        assert not wide, f"{path} is wider than {width} pixels"
    assert found == {}


def test_everything_can_be_reached_by_keyboard(window: Browser, served: Served) -> None:
    sign_in(window, served, served.token("chief", Role.FEDERATION_ADMIN))
    tab, enter = "\ue004", "\ue007"
    window.press(tab)
    assert window.run("return document.activeElement.className") == "skip"
    window.press(enter)
    assert window.run("return document.activeElement.id") == "main"
    window.open(f"{served.url}/queue")
    reached = []
    for _ in range(12):
        window.press(tab)
        reached.append(window.run("return document.activeElement.textContent.trim()"))
    titles = window.run("return [...document.querySelectorAll('nav a')].map((one) => one.textContent.trim())")
    assert [title for title in reached if title in titles] == titles


def test_what_is_drawn_is_seen_with_scripts_and_read_without(window: Browser, served: Served) -> None:
    sign_in(window, served, served.token("chief", Role.FEDERATION_ADMIN))
    window.open(f"{served.url}/history")
    window.wait_for(".chart .uplot")
    window.open(f"{served.url}/timeline")
    window.wait_for(".playback output")
    window.run("const slider = document.querySelector('#moment'); slider.value = 5000;"
               "slider.dispatchEvent(new Event('input'))")  # fmt: skip
    assert "VMs of own users" in window.text(".playback")
    assert window.run("return document.querySelector('line.cursor').getAttribute('x1')") == "5000"
    assert window.log() == []
    window.look(1280, script=False)
    try:
        for path in ("/history", "/timeline", "/loans", "/"):
            window.open(served.url + path)
            assert window.text("h1")
    finally:
        window.look(1280)


def test_the_overview_brings_itself_up_to_date_until_it_is_paused(window: Browser, served: Served) -> None:
    sign_in(window, served, served.token("chief", Role.FEDERATION_ADMIN))
    before = window.text(".head time")
    until(lambda: window.text(".head time") != before)
    window.click("#pause")
    assert window.run("return document.querySelector('#pause').getAttribute('aria-pressed')") == "true"
    assert window.text("#pause") == "Resume updates"


def test_pictures_of_the_documentation(window: Browser, tmp_path: Path) -> None:
    folder = Path(PICTURES) if PICTURES else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    with serving(tmp_path / "data", "--demo") as served:
        window.look(1280, 860)
        window.open(served.dashboard)
        window.wait_for("h1", "Overview")
        preempted = set[int]()

        def are_enough() -> bool:
            preempted.update(_preempted(served))  # those of an earlier look may be none of the latest leases any more
            return len(preempted) > 5

        until(are_enough)
        window.open(f"{served.url}/")
        window.picture(folder / "overview.webp")
        guest = sorted(preempted)[-4]
        window.open(f"{served.url}/leases/{guest}")
        assert "preempted" in window.text("main")
        window.picture(folder / "lease.webp")
        window.open(f"{served.url}/timeline?span=1m")
        window.wait_for(".playback output")
        window.picture(folder / "timeline.webp")
        window.look(390, 844, dark=True)
        window.open(f"{served.url}/queue")
        window.picture(folder / "queue-phone.webp")
    assert all(file.stat().st_size < 150_000 for file in folder.glob("*.webp"))


def _preempted(served: Served) -> list[int]:
    latest = islice(served.admin.leases.list(), 300)
    return [one.id for one in latest if one.preemptions and one.type == "suspendable"]
