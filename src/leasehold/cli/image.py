"""``leasehold image``: what the virtual machines of a site boot from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import Json, switch
from leasehold.cli.service_options import Data, Wanted, needing_the_service

if TYPE_CHECKING:
    from leasehold.service.enactors.qemu.images.image import Image

app = typer.Typer(help="Build what virtual machines boot from.", no_args_is_help=True)

Place = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the image is; else images/debian in the data folder, where sites look for it.",
        show_default=False,
    ),
]


@app.command()
def build(
    out: Place = None,
    data: Data = None,
    anew: Annotated[bool, switch("--anew", does="Build it again, with the packages of today.")] = False,
    json: Json = False,
) -> None:
    """Build a small Debian with Python and a guest agent; says at once where it is, if it is there already.

    Machines that were begun from the one before go on with that.
    """
    place = _place(out, data)
    from leasehold.cli.screen import talk
    from leasehold.service.enactors.qemu.images.build import build_image

    _tell(place, build_image(place, talk, anew=anew), json=json)


@app.command()
def show(out: Place = None, data: Data = None, json: Json = False) -> None:
    """Say where the image is, and what it was made of."""
    place = _place(out, data)
    from leasehold.service.enactors.qemu.images.image import open_image

    _tell(place, open_image(place), json=json)


def _place(out: Path | None, data: Path | None) -> Path:
    with needing_the_service("`leasehold image`"):
        from leasehold.service.enactors.qemu.images.image import usual_folder

        if out is not None:
            return out.expanduser().absolute()
        wanted = Wanted(data=data)
        return usual_folder(wanted.place(wanted.configuration()).work)


def _tell(place: Path, image: "Image", *, json: bool) -> None:
    from leasehold.cli.screen import answer, answer_json

    about = image.description
    if json:
        facts = {"folder": str(place), "contents": about.contents, "least_memory_mib": about.least_memory_mib}
        answer_json(facts)
    else:
        answer(f"{place}\n{about.contents}\nMachines need {about.least_memory_mib} MiB at least.")
