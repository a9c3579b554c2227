"""``leasehold policy``: what rules there are, and what each one says."""

from typing import Annotated

import typer

from leasehold.cli.options import Json, complete_policy
from leasehold.cli.policy_victims import victims

app = typer.Typer(help="Inspect policies.", no_args_is_help=True)


@app.command("list")
def list_policies(json: Json = False) -> None:
    """List all policies, including those of installed packages."""
    from dataclasses import asdict

    from leasehold.cli.policies import all_policies
    from leasehold.cli.screen import answer_json, answer_table

    found = all_policies()
    if json:
        answer_json({"policies": [asdict(policy) for policy in found]})
    else:
        answer_table(["name", "kind", "question"], [[p.name, p.kind, p.question] for p in found])


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_policy, show_default=False)],
    json: Json = False,
) -> None:
    """Show the question a policy answers, its rule and its source."""
    from dataclasses import asdict

    from leasehold.cli.policies import policy_named
    from leasehold.cli.screen import answer, answer_json

    policy = policy_named(name)
    if json:
        answer_json({"policy": asdict(policy)})
    else:
        answer(policy.text())


app.command()(victims)
