"""A browser for tests: Debian's Chromium, driven over the W3C WebDriver protocol that its ChromeDriver speaks."""

import shutil
import socket
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.waiting import until

from leasehold.testing.debian import find_or_install

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of a reference to an element, as the specification of WebDriver has it."""

OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-features=Translate,OptimizationHints,MediaRouter", "--force-color-profile=srgb",
)  # fmt: skip


def _program(name: str) -> Path | None:
    found = shutil.which(name)
    return None if found is None else Path(found)


class Browser:
    """One window of a browser; what is asked of it is done when the call returns."""

    def __init__(self, client: httpx2.Client, session: str) -> None:
        self._client = client
        self._session = session

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """Send a command; raises AssertionError with what the driver says is wrong."""
        content = body if method == "POST" else None
        answer = self._client.request(method, f"/session/{self._session}{path}", json=content)
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value

    def open(self, url: str) -> None:
        self.ask("POST", "/url", url=url)

    @property
    def url(self) -> str:
        return str(self.ask("GET", "/url"))

    def run(self, script: str, *arguments: object) -> Any:
        """Run the body of a function in the page, and give what it returns."""
        return self.ask("POST", "/execute/sync", script=script, args=list(arguments))

    def run_async(self, script: str, *arguments: object) -> Any:
        """Run the body of a function whose last argument is called with the result."""
        return self.ask("POST", "/execute/async", script=script, args=list(arguments))

    def find(self, css: str) -> str:
        found: str = self.ask("POST", "/element", using="css selector", value=css)[ELEMENT]
        return found

    def click(self, css: str) -> None:
        self.ask("POST", f"/element/{self.find(css)}/click")

    def type(self, css: str, text: str) -> None:
        element = self.find(css)
        self.ask("POST", f"/element/{element}/clear")
        self.ask("POST", f"/element/{element}/value", text=text)

    def press(self, key: str) -> None:
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.ask("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def text(self, css: str = "body") -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css))

    def wait_for(self, css: str, text: str = "") -> None:
        """Wait until an element is there, with this text in it."""
        until(lambda: self.run("return [...document.querySelectorAll(arguments[0])].some("
                               "(one) => one.innerText.includes(arguments[1]))", css, text))  # fmt: skip

    def command(self, name: str, **parameters: object) -> Any:
        """Send a command of the DevTools protocol."""
        return self.ask("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def look(self, width: int, height: int = 900, *, dark: bool = False, script: bool = True) -> None:
        """Choose the size of the window, light or dark, and whether scripts run."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.command("Emulation.setScriptExecutionDisabled", value=not script)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen as PNG or WebP; of the page as a whole, or of the window."""
        kind = {"format": "webp", "quality": 82} if path.suffix == ".webp" else {"format": "png"}
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=whole, **kind,
                            **({"clip": self._whole()} if whole else {}))  # fmt: skip
        path.write_bytes(b64decode(shot["data"]))

    def _whole(self) -> dict[str, object]:
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}

    def log(self) -> list[str]:
        """Give what the browser complained of since the last look: errors of scripts, and what the policy refused."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", type="browser")]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own, and end it; raises ProgramMissing where there is none."""
    chromium = find_or_install(lambda: _program("chromium"), "chromium", "chromium")
    driver = find_or_install(lambda: _program("chromedriver"), "chromedriver", "chromium-driver")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = (folder / "chromedriver.log").open("wb")
    command = [str(driver), f"--port={port}", "--allowed-ips=127.0.0.1"]
    with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False) as client:
                until(lambda: _is_up(client))
                capabilities = {
                    "browserName": "chrome",
                    "goog:loggingPrefs": {"browser": "ALL"},
                    "goog:chromeOptions": {
                        "binary": str(chromium),
                        "args": [*OPTIONS, f"--user-data-dir={folder / 'profile'}"],
                    },
                    "timeouts": {"script": 60_000, "pageLoad": 60_000},
                }
                answer = client.post("/session", json={"capabilities": {"alwaysMatch": capabilities}}).json()["value"]
                assert "sessionId" in answer, answer
                yield Browser(client, answer["sessionId"])
                client.delete(f"/session/{answer['sessionId']}")
        finally:
            process.terminate()
            process.wait()


def _is_up(client: httpx2.Client) -> bool:
    try:
        return bool(client.get("/status").json()["value"]["ready"])
    except httpx2.TransportError:
        return False
