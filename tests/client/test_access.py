"""Which gateway, and as whom: where both are looked for, in which order, and where a token never goes."""

import os
from pathlib import Path

import pytest

from leasehold.client import Client
from leasehold.client.access import ADMIN_TOKEN, DEFAULT_URL, URL, Bearer, data_folder, find_access, is_loopback
from leasehold.model.errors import InputError, InvalidField

ELSEWHERE = "https://gateway.example.org"
BT = f"bt_u{os.getuid()}"


class TestDataFolder:
    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({"LEASEHOLD_DATA": "/srv/leasehold", "XDG_DATA_HOME": "/data"}, Path("/srv/leasehold")),
            ({"LEASEHOLD_DATA": "~/gateway"}, Path.home() / "gateway"),
            ({"XDG_DATA_HOME": "/data"}, Path("/data/leasehold")),
            ({"XDG_DATA_HOME": "relative"}, Path.home() / ".local/share/leasehold"),
            ({"LEASEHOLD_DATA": ""}, Path.home() / ".local/share/leasehold"),
            ({}, Path.home() / ".local/share/leasehold"),
        ],
    )
    def test_is_named_or_usual(self, environment: dict[str, str], expected: Path) -> None:
        assert data_folder(environment) == expected


class TestUrl:
    def test_is_the_argument_then_the_environment_then_the_folder_then_the_usual(self, tmp_path: Path) -> None:
        environment = {"LEASEHOLD_DATA": str(tmp_path), "LEASEHOLD_URL": ELSEWHERE}
        assert find_access("http://localhost:1/", environment=environment).url == "http://localhost:1"
        assert find_access(environment=environment).url == ELSEWHERE
        del environment["LEASEHOLD_URL"]
        assert find_access(environment=environment).url == DEFAULT_URL
        (tmp_path / URL).write_text("http://127.0.0.1:9000\n")
        assert find_access(environment=environment).url == "http://127.0.0.1:9000"

    @pytest.mark.parametrize("url", ["gateway.example.org", "ftp://gateway.example.org", "https://", "http:///v1"])
    def test_another_address_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidField, match=r"^gateway url: got .* expected an address such as http://"):
            find_access(url, "")


class TestToken:
    @pytest.fixture
    def environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        """Have a token everywhere."""
        for folder in ("data", "run", "shared"):
            (tmp_path / folder).mkdir()
        (tmp_path / "named").write_text("from-named-file\n")
        (tmp_path / "named").chmod(0o600)
        (tmp_path / "run" / BT).write_text("from-run\n")
        (tmp_path / "shared" / BT).write_text("from-shared\n")
        (tmp_path / "data" / ADMIN_TOKEN).write_text("from-data\n")
        monkeypatch.setattr("leasehold.client.access._SHARED", tmp_path / "shared")
        return {
            "LEASEHOLD_DATA": str(tmp_path / "data"),
            "LEASEHOLD_TOKEN": "from-leasehold",
            "BEARER_TOKEN": " from-bearer\n",
            "BEARER_TOKEN_FILE": str(tmp_path / "named"),
            "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        }

    def test_is_looked_for_in_this_order(self, tmp_path: Path, environment: dict[str, str]) -> None:
        assert find_access(None, "given", environment).token == Bearer("given", "the argument")
        assert find_access(environment=environment).token == Bearer("from-leasehold", "LEASEHOLD_TOKEN")
        del environment["LEASEHOLD_TOKEN"]
        assert find_access(environment=environment).token == Bearer("from-bearer", "BEARER_TOKEN")
        del environment["BEARER_TOKEN"]
        assert find_access(environment=environment).token == Bearer("from-named-file", "BEARER_TOKEN_FILE")
        del environment["BEARER_TOKEN_FILE"]
        assert find_access(environment=environment).token.text == "from-run"
        (tmp_path / "run" / BT).unlink()
        assert find_access(environment=environment).token.text == "from-shared"
        (tmp_path / "shared" / BT).unlink()
        assert find_access(environment=environment).token.text == "from-data"
        (tmp_path / "data" / ADMIN_TOKEN).unlink()
        assert find_access(environment=environment).token == Bearer("")

    @pytest.mark.parametrize(
        "text",
        [
            "lh_secretsecret\n\nsecondline",
            "secretone secretother",
            "lh_\N{SNOWMAN}",
            "secreta\tsecretb",
            "x," * 9,
        ],
    )
    def test_what_no_header_can_carry_is_refused_and_never_shown(
        self, tmp_path: Path, environment: dict[str, str], text: str
    ) -> None:
        del environment["LEASEHOLD_TOKEN"], environment["BEARER_TOKEN"]
        named = tmp_path / "named"
        named.write_text(text)
        with pytest.raises(InputError, match="does not hold a valid token") as in_file:
            find_access(environment=environment)
        with pytest.raises(InvalidField, match=r"BEARER_TOKEN: .* expected a valid token") as in_variable:
            find_access(environment=environment | {"BEARER_TOKEN": text})
        with pytest.raises(InvalidField, match=r"token: .* expected a valid token") as in_argument:
            find_access(None, text, environment)
        for error in (in_file, in_variable, in_argument):
            assert not set(text.split()) & set(str(error.value).split())
            assert len(str(error.value).splitlines()) == 1

    def test_an_empty_file_is_said_to_be_empty(self, tmp_path: Path, environment: dict[str, str]) -> None:
        del environment["LEASEHOLD_TOKEN"], environment["BEARER_TOKEN"]
        (tmp_path / "named").write_text(" \n")
        with pytest.raises(InputError, match="named: is empty"):
            find_access(environment=environment)

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
    def test_a_file_that_others_can_read_is_refused(
        self, tmp_path: Path, environment: dict[str, str], mode: int
    ) -> None:
        del environment["LEASEHOLD_TOKEN"], environment["BEARER_TOKEN"]
        (tmp_path / "named").chmod(mode)
        with pytest.raises(InputError, match=r"named: holds a token and can be read by others; .* chmod 600"):
            find_access(environment=environment)

    def test_none_may_be_wished_for(self, environment: dict[str, str]) -> None:
        assert find_access(token="", environment=environment).token.text == ""

    def test_a_named_file_that_is_missing_is_an_error(self, environment: dict[str, str]) -> None:
        wishes = {"LEASEHOLD_DATA": environment["LEASEHOLD_DATA"], "BEARER_TOKEN_FILE": "nowhere"}
        with pytest.raises(InputError, match=r"^nowhere: BEARER_TOKEN_FILE names it, and it cannot be read"):
            find_access(environment=wishes)

    def test_another_users_file_does_not_count(
        self, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        somebody, real = os.getuid() + 1, os.getuid()
        monkeypatch.setattr(os, "getuid", iter([real, somebody, somebody]).__next__)
        for name in ("LEASEHOLD_TOKEN", "BEARER_TOKEN", "BEARER_TOKEN_FILE"):
            del environment[name]
        assert find_access(environment=environment).token.text == "from-data"

    def test_the_administrators_is_for_the_gateway_of_its_folder_alone(self, environment: dict[str, str]) -> None:
        only_data = {"LEASEHOLD_DATA": environment["LEASEHOLD_DATA"], "XDG_RUNTIME_DIR": "nowhere"}
        Path(environment["LEASEHOLD_DATA"], "..", "shared", BT).unlink()
        assert find_access(DEFAULT_URL, environment=only_data).token.text == "from-data"
        assert find_access(ELSEWHERE, environment=only_data).token.text == ""
        assert find_access("http://127.0.0.1:9999", environment=only_data).token.text == ""

    def test_is_never_shown(self, environment: dict[str, str]) -> None:
        assert "from-leasehold" not in repr(find_access(environment=environment))


class TestPlainHttp:
    @pytest.mark.parametrize("host", ["127.0.0.1:8470", "127.8.9.1", "localhost", "[::1]:80"])
    def test_stays_on_this_machine(self, host: str) -> None:
        assert find_access(f"http://{host}", "secret").url == f"http://{host}"

    @pytest.mark.parametrize(
        "host", ["gateway.example.org", "192.168.1.7", "127.0.0.1.example.org", "[::2]", "8.8.8.8"]
    )
    def test_carries_no_token_elsewhere(self, host: str) -> None:
        with pytest.raises(InvalidField, match="expected https: over plain http a token is sent only to this machine"):
            Client(f"http://{host}", "secret")
        assert find_access(f"http://{host}", "").url == f"http://{host}"
        assert find_access(f"https://{host}", "secret").is_encrypted

    def test_loopback_is_what_it_is(self) -> None:
        assert is_loopback("::1")
        assert not is_loopback("localhost.example.org")
