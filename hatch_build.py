"""Compile the kernel while a wheel is built: `leasing/kernel.py` and `simulation/cluster.py`, by Cython.

Without a C compiler, or with LEASEHOLD_PURE=1, the wheel has the same modules as plain Python, and the build says so.
The editable install of a developer is plain Python too: nothing compiled comes to lie beside the sources.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = ("leasehold/leasing/kernel.py", "leasehold/simulation/cluster.py")
PURE = "LEASEHOLD_PURE"


class KernelBuildHook(BuildHookInterface[Any]):
    """Adds the compiled modules to the wheel, beside their sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, if that is possible; never fail for want of a compiler."""
        if version == "editable":
            return
        if os.environ.get(PURE, "") not in {"", "0"}:
            self.app.display_info(f"Leasehold's kernel is plain Python: {PURE} is set")
            return
        self._scratch = Path(mkdtemp(prefix="leasehold-kernel-"))
        try:
            compiled = self._compile()
        except (ImportError, OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"Leasehold's kernel is plain Python, as it could not be compiled: {error}")
            return
        build_data["force_include"] |= compiled
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was made on the way."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)

    def _compile(self) -> dict[str, str]:
        """Return, for each compiled file, where it is in the wheel."""
        source = self._scratch / "src"
        shutil.copytree(Path(self.root) / "src" / "leasehold", source / "leasehold")
        command = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "-3", "--no-docstrings"]
        command += ["--directive", "annotation_typing=False", *MODULES]
        flags = f"{os.environ.get('CFLAGS', '')} -O3 -g0".strip()
        environment = os.environ | {"CFLAGS": flags}
        subprocess.run(  # noqa: S603 - our own command
            command, cwd=source, env=environment, check=True, capture_output=True, text=True
        )
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        places = [Path(module).with_suffix(suffix) for module in MODULES]
        return {str(source / place): str(place) for place in places}
