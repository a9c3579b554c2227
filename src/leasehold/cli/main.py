"""The entry point ``leasehold``: the commands, and what becomes of every way of failing."""

import sys
import traceback
from collections.abc import Callable, Sequence
from copy import copy
from inspect import cleandoc
from typing import Annotated

import typer
from typer.core import TyperOption
from typer.models import CommandInfo

from leasehold import __version__
from leasehold.cli import (
    agreement,
    coallocation,
    estimate,
    file,
    image,
    job,
    lease,
    node,
    peer,
    policy,
    scenario,
    sim,
    site,
    snapshot,
    store,
    token,
    usage,
    whatif,
)
from leasehold.cli.demo import demo
from leasehold.cli.doctor import doctor
from leasehold.cli.exit_codes import BAD_INPUT, DEFECT, DONE, INTERRUPTED
from leasehold.cli.reproduce import reproduce
from leasehold.cli.screen import talk
from leasehold.cli.serve import serve
from leasehold.model.errors import InvariantBroken, LeaseholdError

HELP = ["-h", "--help"]

app = typer.Typer(
    help="Lend a cluster's idle capacity without its own users noticing.",
    epilog="Exit codes: 0 done, 1 the answer is no, 2 bad input, 3 a defect, 4 no gateway, 130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": HELP},
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(serve)
app.command()(doctor)
app.add_typer(lease.app, name="lease")
app.add_typer(coallocation.app, name="coallocation")
app.add_typer(job.app, name="job")
app.add_typer(file.app, name="file")
app.add_typer(node.app, name="node")
app.add_typer(site.app, name="site")
app.add_typer(peer.app, name="peer")
app.add_typer(token.app, name="token")
app.add_typer(store.app, name="store")
app.add_typer(image.app, name="image")
app.add_typer(sim.app, name="sim")
app.add_typer(agreement.app, name="agreement")
app.add_typer(usage.app, name="usage")
app.add_typer(estimate.app, name="estimate")
app.add_typer(whatif.app, name="whatif")
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(policy.app, name="policy")
app.add_typer(scenario.app, name="scenario")
app.command()(reproduce)


def _say_version(wanted: bool) -> None:
    if wanted:
        from leasehold.leasing.kernel import compiled

        typer.echo(f"leasehold {__version__} (kernel: {'compiled' if compiled() else 'plain Python'})")
        raise typer.Exit


@app.callback()
def leasehold(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, metavar="", help="Print the version."),
    ] = False,
) -> None:
    """Lend a cluster's idle capacity without its own users noticing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error that a user can cause is one line."""
    try:
        return _run(arguments)
    except InvariantBroken as error:
        _complain(str(error), *getattr(error, "__notes__", ()))
    except Exception:  # noqa: BLE001 - the last resort: whatever it is, it is ours
        traceback.print_exc()
        _complain("this is a defect of Leasehold, not of your input")
    return DEFECT


def only(whole: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Give an application with nothing but the group or command that the first argument names; else all of it.

    To make the other hundred commands takes a third of the time of a start, and 8 MB.
    """
    if not arguments:
        return whole
    name, rest = arguments[0], arguments[1:]
    part = copy(whole)
    part.registered_commands = [one for one in whole.registered_commands if name == _name_of(one)]
    part.registered_groups = []
    for group in whole.registered_groups:
        if group.name == name and group.typer_instance is not None:
            below = copy(group)
            below.typer_instance = only(group.typer_instance, rest)
            part.registered_groups.append(below)
    return part if part.registered_commands or part.registered_groups else whole


def _name_of(command: CommandInfo) -> str | None:
    if command.name is not None or command.callback is None:
        return command.name
    return typer.main.get_command_name(command.callback.__name__)


def _commands(arguments: Sequence[str]) -> Callable[..., object]:
    """Give the tree of commands, with helps that are laid out for the terminal's width and no other."""
    root = typer.main.get_command(only(app, arguments))
    todo = [root]
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        paragraphs = cleandoc(command.help or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.splitlines()) for paragraph in paragraphs)
        for option in command.get_params(typer.Context(command, help_option_names=HELP)):
            if isinstance(option, TyperOption) and option.is_flag:
                option.metavar = ""  # it takes no value, and Typer says <bool>
    return root


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command; errors that the user can correct are reported here."""
    failure = BAD_INPUT
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = _commands(given)(given, prog_name="leasehold", standalone_mode=False)
    except InvariantBroken:
        raise
    except LeaseholdError as error:
        from leasehold.cli.exit_codes import exit_code

        problem, failure = str(error), exit_code(error)
    except typer.BadParameter as error:
        problem = _of_parameter(error)
    except typer.TyperException as error:
        problem = error.format_message()  # empty where the help was printed instead
    except OSError as error:
        problem = f"{error.filename or 'input or output'}: {error.strerror}"
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    else:
        return code if isinstance(code, int) else DONE
    if problem:
        _complain(problem)
    return failure


def _of_parameter(error: typer.BadParameter) -> str:
    """Name option, value and what was expected, where pydantic refused the value."""
    from pydantic import ValidationError

    from leasehold.configuration.validation import expected_by
    from leasehold.model.errors import InvalidField

    if not isinstance(error.__cause__, ValidationError) or error.param is None:
        return error.format_message()
    field = error.param.get_error_hint().split(" / ")[0].strip("'[].")
    wrong = error.__cause__.errors(include_url=False)[0]
    return str(InvalidField(field, wrong["input"], expected_by(wrong)))


def _complain(problem: str, *more: str) -> None:
    for line in (f"leasehold: {' '.join(problem.splitlines())}", *more):
        talk(line)


if __name__ == "__main__":
    sys.exit(main())
