"""The README's commands, typed as it prints them, and the numbers that it says they give."""

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.saying import Cli
from tests.playing import play

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def typed(beginning: str) -> str:
    """The command that begins so, as a reader types it: without its comment and the folder of the program."""
    found = re.search(rf"^(?:\.venv/bin/)?({re.escape(beginning)}.*?)(?:\s+#.*)?$", README, re.MULTILINE)
    found = found or re.search(rf"`({re.escape(beginning)}[^`]*)`", README)
    assert found, f"the README has no command `{beginning}`"
    return found[1]


def printed(first: str, last: str) -> str:
    """What the README says is printed, from one line to another."""
    found = re.search(rf"^{re.escape(first)}.*?^{re.escape(last)}.*?$", README, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


@pytest.mark.docs
def test_the_demo_gives_the_numbers_of_the_readme(cli: Cli) -> None:
    said = cli("demo", "--out", "demo")
    assert said.code == 0
    assert printed("rr: ", "occupancy") in said.out


def test_a_log_of_ones_own_is_replayed_and_validated(cli: Cli) -> None:
    Path("small.swf").rename("my-cluster.swf.gz")  # is looked into, whatever it is called
    for beginning in ("leasehold sim run", "leasehold sim validate"):
        _, *arguments = shlex.split(typed(beginning))
        assert cli(*arguments).code == 0


def test_the_demonstration_is_served_asked_and_does_a_job(tmp_path: Path) -> None:
    serve = typed("leasehold serve --demo")
    watch = typed("leasehold lease list --watch").replace(" --watch", "")
    submit = typed("leasehold lease submit")
    logs = typed("leasehold lease logs").replace(" ID", " $(cat id)")
    job = typed("leasehold job submit")
    play(
        f"""
```sh &
{serve} --port 0
```

```console
$ {watch} | head -1
ID NAME TYPE CONSUMER ST ...
$ {submit} --json > answer && python -c 'import json; print(json.load(open("answer"))["lease"]["id"])' > id
$ {logs} | head -1
20...
$ {job}
leasehold: job ...
done
```
""",
        tmp_path,
    )
