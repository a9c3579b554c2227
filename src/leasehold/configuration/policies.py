"""Policies by name: Leasehold's own, those of installed packages, and those in a file of the user's.

``mine.py:Selective`` is what the file ``mine.py`` calls ``Selective``. The file is run to find it. The parameters
of a routing policy follow its name, as in ``selective:price=0.005`` or ``mine.py:Selective:price=0.005``.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from leasehold.configuration.declaration import Text
from leasehold.configuration.keys import Keys
from leasehold.leasing.victims.from_function import from_function
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.errors import InputError, InvalidField
from leasehold.routing.policy import RoutingPolicy
from leasehold.routing.registry import PolicyMaker, parted, policy_maker, routing_policy

IN_FILE = ".py:"
"""Is in the name of a policy in a file."""


class VictimPolicyName(Text):
    """The name of a victim policy; a file counts from the folder of the configuration."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a name; raises InvalidField with the place of the key, InputError for a file."""
        policy = absolute(str(keys.text(name, default)), keys.folder)
        with keys.at(name):
            find_victim_policy(policy)
        return policy


class RoutingPolicyName(Text):
    """The name of a routing policy; a file counts from the folder of the configuration."""

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a name; raises InvalidField with the place of the key, InputError for a file."""
        policy = absolute(str(keys.text(name, default)), keys.folder)
        with keys.at(name):
            find_routing_policy(policy)
        return policy


def absolute(name: str, folder: Path) -> str:
    """Give the name of a policy as it is to be kept: one in a file with the whole path of that file."""
    if IN_FILE not in name:
        return name
    file, ending, rest = name.partition(IN_FILE)
    return f"{(folder / (file + ending[:-1])).resolve()}:{rest}"


def find_routing_policy(name: str) -> PolicyMaker:
    """Find what makes a routing policy, with the parameters that its name says.

    Raises UnknownName, InputError for a file that cannot be used, InvalidField for an unknown policy, or
    no parameter of it.
    """
    bare, written = parted(name)
    return policy_maker(_routing_policy(bare), written)


def _routing_policy(name: str) -> type[RoutingPolicy]:
    if IN_FILE not in name:
        return routing_policy(name)
    found = _from_file(name)
    if isinstance(found, type) and issubclass(found, RoutingPolicy):
        return found
    raise InvalidField("policy", name, "a subclass of RoutingPolicy")


def find_victim_policy(name: str) -> VictimPolicy:
    """Find a victim policy.

    Raises UnknownName, InputError for a file that cannot be used, InvalidField for an unknown policy.
    """
    return _victims_from_file(name) if IN_FILE in name else victim_policy(name)


def _victims_from_file(name: str) -> VictimPolicy:
    found = _from_file(name)
    if isinstance(found, type) and issubclass(found, VictimPolicy):
        found = found()
    if isinstance(found, VictimPolicy):
        return found
    if callable(found) and not isinstance(found, type):
        return from_function(found)
    raise InvalidField("victims", name, "a VictimPolicy, or a function that orders the victims")


def _from_file(name: str) -> object:
    file, _, attribute = name.rpartition(":")
    module = _module(Path(file))
    if not hasattr(module, attribute):
        offered = ", ".join(key for key in vars(module) if not key.startswith("_"))
        raise InputError(file, None, f"has no {attribute!r}; it has {offered or 'nothing'}")
    found: object = getattr(module, attribute)
    return found


def _module(file: Path) -> ModuleType:
    """Run a file as a module of its own; whatever its code raises becomes one line."""
    if not file.is_file():
        raise InputError(file, None, "no such file, expected the Python file of a policy")
    spec = importlib.util.spec_from_file_location(f"leasehold_policy_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(file, _line_of(error, file), problem) from error
    return module


def _line_of(error: BaseException, file: Path) -> int | None:
    """Find the last line of that file on the way to the error."""
    if isinstance(error, SyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
