"""The page about libvirt: its commands are typed as printed, at a gateway with a real host."""

import re
from pathlib import Path

import pytest
from tests.playing import Block, blocks, play
from tests.service.drivers.libvirt.rigs import LibvirtRig

pytestmark = pytest.mark.machines

PAGE = Path(__file__).resolve().parents[4] / "docs" / "howto" / "libvirt.md"
GATEWAY = """\
```toml leasehold.toml
[jobs]
look_every_s = 1

[[cluster]]
name = "rack-a"
slots = 2
driver = "libvirt"

[cluster.libvirt]
login_user = "root"
{options}
```

```sh &
leasehold serve --config leasehold.toml --port 0
```

```console
$ until leasehold node list | grep --quiet rack-a; do sleep 0.2; done
$ head -c 100000 /dev/urandom > sky.dat
```
"""
UNTIL_OPEN = "```console\n$ until leasehold lease show 2 | grep --quiet ssh; do sleep 0.2; done\n```\n"
"""A user looks again if the machine is not up yet; the test has to know when to look."""


def test_what_the_page_shows_is_what_happens(
    real: LibvirtRig, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(library))
    options = {"poll_s": 0.2, **real.options, "uri": real.more["a"]["uri"]}
    lines = "\n".join(f"{name} = {_toml(value)}" for name, value in options.items())
    typed = [block for block in blocks(PAGE.read_text("utf-8")) if block.text.startswith("$ ")]
    assert len(typed) == 2, "files, and logging in"
    files, login = map(_as_typed, typed)
    opened = login.replace("$ leasehold lease show", f"```\n\n{UNTIL_OPEN}\n```console\n$ leasehold lease show")
    play(GATEWAY.format(options=lines) + files + opened, tmp_path)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def _as_typed(block: Block) -> str:
    """Give a block to be typed. The port is another each time, and who logs in by it is in a test of its own."""
    text = re.sub(
        r"ssh -p \d+ \w+@", "ssh -p ... root@", re.sub(r"^\$ ssh -i .*\n", "", block.text, flags=re.MULTILINE)
    )
    return f"```console\n{text}```\n"
