"""What goes wrong between a terminal and a gateway: one line each, and its exit code; and what completes."""

import socket
import subprocess
import sys

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import Cut, Gateway, Reply, problem, site

from leasehold.cli.live.gateway import advising
from leasehold.cli.live.names import complete_site
from leasehold.cli.main import main
from leasehold.client import Unreachable
from leasehold.client.access import Access, Bearer

SUBMIT = ["lease", "submit", "--type", "suspendable", "--duration", "1h"]


class TestFailures:
    def test_nobody_there_is_told_at_once(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("LEASEHOLD_URL", url)
        for arguments in (["lease", "list"], SUBMIT):
            said = cli(*arguments)
            assert (said.code, said.out) == (4, "")
            assert said.err == (
                f"leasehold: no gateway answers at {url}: Connection refused "
                "(`leasehold serve` starts one, LEASEHOLD_URL names another)\n"
            )

    def test_a_data_folder_that_is_not_there_is_named(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LEASEHOLD_URL")
        monkeypatch.setenv("LEASEHOLD_DATA", "/nonexistent")
        monkeypatch.setattr("leasehold.client.access.DEFAULT_URL", "http://127.0.0.1:1")
        said = cli("lease", "list")
        assert said.code == 4
        assert said.err.endswith("; LEASEHOLD_DATA names /nonexistent, which does not exist)\n")

    def test_a_certificate_that_nobody_vouches_for_names_where_to_say_who_does(self) -> None:
        access = Access("https://gateway.example.org", Bearer(""))
        why = "certificate verify failed: self-signed certificate"

        def asked() -> None:
            with advising(access):
                raise Unreachable(access.url, why)

        with pytest.raises(Unreachable, match=r"self-signed certificate \(LEASEHOLD_CA names a file"):
            asked()

    def test_the_address_is_without_the_version(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEASEHOLD_URL", "http://127.0.0.1:8470/v1")
        said = cli("lease", "list")
        assert said.code == 2
        assert "expected http://127.0.0.1:8470: the address without /v1" in said.err

    def test_a_submission_in_doubt_says_how_to_find_out(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases", Cut())
        said = cli(*SUBMIT, "--idempotency-key", "mine")
        assert said.code == 4
        assert said.err.endswith("repeat the request with the idempotency key mine to learn its outcome\n")

    @pytest.mark.parametrize(
        ("status", "code"), [(401, 2), (403, 1), (404, 2), (409, 1), (422, 2), (429, 1), (500, 3), (503, 4)]
    )
    def test_each_problem_has_its_exit_code(self, cli: Cli, gateway: Gateway, status: int, code: int) -> None:
        gateway.answer("POST", "/v1/leases/42/extension", problem(status, "x", "One line."))
        said = cli("lease", "extend", "42", "--by", "60")
        assert (said.code, said.out) == (code, "")
        assert said.err.startswith("leasehold: One line.")

    def test_without_a_token_it_is_said_where_one_may_be(
        self, cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LEASEHOLD_TOKEN")
        gateway.answer("GET", "/v1/leases/42", problem(401, "unauthenticated", "a token is needed"))
        said = cli("lease", "show", "42")
        assert said.err == "leasehold: a token is needed (there was none: LEASEHOLD_TOKEN may hold one)\n"

    @pytest.mark.parametrize("name", ["--duration", "--deadline", "--ready"])
    def test_a_time_that_is_none_is_refused_before_anything_is_asked(
        self, cli: Cli, gateway: Gateway, name: str
    ) -> None:
        said = cli("lease", "submit", "--duration", "60", name, "soon")
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith(f"leasehold: {name}: got 'soon', expected a time such as ")

    def test_without_what_speaks_http_the_cure_is_named(self) -> None:
        script = "import sys; sys.modules['httpx2'] = None; from leasehold.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", script, "lease", "list"], capture_output=True, text=True, check=False
        )
        cure = "Talking to a gateway needs a part that is not installed: pip install 'leasehold[client]'"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"leasehold: {cure}\n")


@pytest.mark.parametrize("command", ["lease submit", "site list", "token create"])
def test_help_waits_for_nothing_that_talks(command: str) -> None:
    script = "import sys; from leasehold.cli.main import main; main(); print(*sys.modules)"
    arguments = [sys.executable, "-c", script, *command.split(), "-h"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "--json" in done.stdout
    assert {"httpx2", "leasehold.client"} & set(done.stdout.splitlines()[-1].split()) == set()


class TestCompletion:
    def test_sites_are_those_of_the_gateway(self, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site("das3"), site("lyon")]}))
        assert complete_site("d") == ["das3"]

    @pytest.mark.parametrize("step", [Cut(), problem(401, "x", "No."), Reply(body="?")])
    def test_without_one_there_are_none(self, gateway: Gateway, step: Cut | Reply) -> None:
        gateway.answer("GET", "/v1/sites", step)
        assert complete_site("d") == []

    @pytest.mark.parametrize(
        ("words", "offered"),
        [
            ("leasehold lease submit --type s", ["suspendable"]),
            ("leasehold lease list --state run", ["running"]),
            ("leasehold token create x --role s", ["site-operator"]),
            ("leasehold lease ca", ["cancel"]),
        ],
    )
    def test_names_that_are_known_need_no_gateway(
        self,
        words: str,
        offered: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("_LEASEHOLD_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            main([])
        assert capsys.readouterr().out.split() == offered
