"""On what an evaluation was run: for the first lines of its report."""

import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
MODEL = "model name"


def where() -> str:
    """Say it in a few words: processors, how many, and Python."""
    count = os.cpu_count() or 1
    processors = f"{count} processor{'' if count == 1 else 's'}"
    return f"{processors} ({_model()}), Python {platform.python_version()}"


def _model() -> str:
    """Name the processor; where the system does not say, its architecture."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(MODEL))
    return next(named, platform.machine())
