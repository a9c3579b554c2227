"""What `make fast` compiles can be compiled, and a difference in what it does would be seen.

That both do the same is what `make fast` itself ends with: compiling takes minutes.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from pathspec import GitIgnoreSpec

from bench.compiled import COMPILED, differing, interpreted

ROOT = Path(__file__).parents[2]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["mypyc"]


DERIVED_FROM = {"src/leasehold/routing/policy.py", "src/leasehold/leasing/victims/policy.py"}
"""What policies of users derive from, which they could not if it was compiled."""


def chosen() -> list[str]:
    """The files that the build compiles, by the patterns of `pyproject.toml`."""
    included, excluded = (GitIgnoreSpec.from_lines(HOOK[key]) for key in ("include", "exclude"))
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*.py"))]
    return [path for path in files if included.match_file(path) and not excluded.match_file(path)]


def test_the_patterns_name_files_that_are_there() -> None:
    files = chosen()
    assert {f"src/{name.replace('.', '/')}.py" for name in COMPILED} <= set(files)
    assert DERIVED_FROM.isdisjoint(files)
    named = [pattern for pattern in HOOK["exclude"] if pattern.endswith(".py") and "/" in pattern]
    assert all((ROOT / pattern.lstrip("/")).is_file() for pattern in named)


@pytest.mark.soak
def test_mypyc_takes_every_module_of_the_core(tmp_path: Path) -> None:
    """All but the C compiler's part, which takes minutes: a construct that mypyc refuses is found here.

    As the build calls it, which hides `pyproject.toml` from mypyc: what mypy is told there does not count.
    """
    script = "import sys; from mypyc.build import mypycify; mypycify(sys.argv[2:], target_dir=sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path), "--config-file=", *HOOK.get("mypy-args", []), *chosen()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.rglob("*.c"))


def test_tables_that_differ_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, vms in ((one, [1, None]), (other, [1, 2])):
        folder.mkdir()
        pl.DataFrame({"vms": vms}).write_parquet(folder / "leases.parquet")
        pl.DataFrame({"site": ["a"]}).write_parquet(folder / "sites.parquet")
    assert differing(one, one) == ()
    assert differing(one, other) == ("leases.parquet",)
    (other / "sites.parquet").unlink()
    assert differing(one, other) == ("leases.parquet", "sites.parquet")


def test_run_folders_without_tables_are_no_proof(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        differing(tmp_path, tmp_path)


def test_what_was_not_compiled_is_named() -> None:
    assert [Path(path).stem for path in interpreted(ROOT / "src")] == ["gateway", "backfill", "kernel"]
