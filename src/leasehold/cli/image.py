"""``leasehold image``: what the virtual machines of a site boot from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import Data, Json, Wanted, needing_the_service, switch
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.service.drivers.qemu.images.image import Image

app = typer.Typer(help="Build images for virtual machines.", no_args_is_help=True)

Place = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder of the image; default: images/debian in the data folder, where sites look for it.",
        show_default=False,
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="PACKAGE",
        help="Add this Debian package, as NAME or NAME=VERSION; may be repeated.",
        show_default=False,
    ),
]


@app.command()
def build(
    out: Place = None,
    data: Data = None,
    packages: With = None,
    anew: Annotated[bool, switch("--anew", does="Rebuild it with current packages.")] = False,
    json: Json = False,
) -> None:
    """Build a small Debian image with Python and a guest agent, unless it exists.

    Machines that were begun from the one before go on with that. With packages: an image for jobs that need
    them, which sites find automatically.
    """
    place = _place(out, data)
    from leasehold.service.drivers.qemu.images.build import build_image

    image = build_image(place, talk, rebuild=anew)
    if packages:
        from leasehold.service.drivers.qemu.images.build import image_with, read_packages

        talk(f"builds one with {', '.join(packages)} on it ...")
        image = image_with(image, read_packages(packages), place.parent)
        place = image.folder
    _tell(place, image, json=json)


@app.command("list")
def list_images(data: Data = None, json: Json = False) -> None:
    """List the images in the data folder, with the packages requested for each."""
    place = _place(None, data)
    from leasehold.service.drivers.qemu.images.image import Catalogue

    images = Catalogue(place.parent, place).images()
    if json:
        answer_json({"images": [_facts(image.folder, image) for image in images]})
    else:
        for image in images:
            answer(f"{image.name}  {image.size_bytes >> 20} MiB  {image.description.contents}")


@app.command()
def show(out: Place = None, data: Data = None, json: Json = False) -> None:
    """Show where the image is and its contents."""
    place = _place(out, data)
    from leasehold.service.drivers.qemu.images.image import open_image

    _tell(place, open_image(place), json=json)


def _place(out: Path | None, data: Path | None) -> Path:
    with needing_the_service("`leasehold image`"):
        from leasehold.service.drivers.qemu.images.image import default_folder

        if out is not None:
            return out.expanduser().absolute()
        wanted = Wanted(data=data)
        return default_folder(wanted.place(wanted.configuration()).work)


def _tell(place: Path, image: "Image", *, json: bool) -> None:
    about = image.description
    if json:
        answer_json(_facts(place, image))
    else:
        answer(f"{place}\n{about.contents}\nMachines need {about.least_memory_mib} MiB at least.")


def _facts(place: Path, image: "Image") -> dict[str, object]:
    about = image.description
    return {
        "folder": str(place),
        "name": image.name,
        "contents": about.contents,
        "least_memory_mib": about.least_memory_mib,
        "size_bytes": image.size_bytes,
        "software": dict(about.software),
    }
