"""Leasehold: lend a cluster's idle capacity without its own users noticing.

As a library it is ten functions, `leasehold.study`; ``leasehold.simulate`` and its like import that module when they
are first used. The way of a request through the packages is drawn in ``ARCHITECTURE.md``.
"""

from importlib import import_module

__version__ = "0.1.0"

_STUDY = (
    "Run",
    "Scenario",
    "compare",
    "connect",
    "differences",
    "gantt",
    "load",
    "metrics",
    "replicate",
    "scenario",
    "simulate",
    "validate",
)


def __getattr__(name: str) -> object:
    if name in _STUDY:
        return getattr(import_module("leasehold.study"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_STUDY])
