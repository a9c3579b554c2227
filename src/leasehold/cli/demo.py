"""``leasehold demo``: the same requests twice, under two ways of sending guests to clusters."""

from typing import Annotated

from leasehold.cli.options import Force, Json, Out, Quiet, Seed, switch


def demo(
    out: Out = None,
    seed: Seed = None,
    quick: Annotated[bool, switch("--quick", does="Simulate six hours instead of two days.")] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate three clusters that lend for two days, under two policies, and compare."""
    from leasehold.cli.folders import choose_folder
    from leasehold.cli.running import Manner
    from leasehold.cli.screen import answer_json
    from leasehold.cli.showcase import Showcase

    folder = choose_folder("demo", out, force=force)
    showcase = Showcase(folder, seed, quick=quick, manner=Manner(quiet=quiet or json))
    showcase.perform()
    if json:
        answer_json(showcase.as_json())
    else:
        showcase.tell()
