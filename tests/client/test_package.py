"""What the package offers, and to whom."""

import subprocess
import sys

import pytest

import leasehold.client


@pytest.mark.parametrize("name", leasehold.client.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(leasehold.client, name).__module__.startswith(("leasehold.client.", "leasehold.protocol."))


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Clientt'"):
        leasehold.client.Clientt  # type: ignore[attr-defined] # noqa: B018


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_only_the_clients_need_what_speaks_http() -> None:
    done = run("import sys, leasehold.client, leasehold.client.access; print('httpx2' in sys.modules)")
    assert done.stdout == "False\n"


def test_without_it_the_cure_is_named() -> None:
    done = run("import sys; sys.modules['httpx2'] = None\nfrom leasehold.client import Client")
    assert done.stderr.splitlines()[-1].endswith(
        "Talking to a gateway needs a part that is not installed: pip install 'leasehold[client]'"
    )
