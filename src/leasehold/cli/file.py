"""``leasehold file``: files that jobs read, and that jobs left behind."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.table import answer_rows
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, talk

app = typer.Typer(help="Store files for jobs at the gateway.", no_args_is_help=True)

Which = Annotated[
    str, typer.Argument(metavar="FILE", help="Its name, or its SHA-256 or the beginning of it.", show_default=False)
]


@app.command()
def put(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files to store.", show_default=False)],
    json: Json = False,
) -> None:
    """Store files, and print the SHA-256 of each; an upload that was interrupted is continued."""
    from leasehold.client.files import upload

    with gateway() as client:
        stored = [upload(client, path) for path in paths]
    if json:
        answer_json({"files": stored})
    else:
        answer("\n".join(f"{file.sha256}  {file.name}" for file in stored))


@app.command()
def get(
    which: Which,
    to: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File or folder to write to.", show_default="its name here")
    ] = None,
    json: Json = False,
) -> None:
    """Write a stored file to this machine; a download that was interrupted is continued."""
    from leasehold.cli.live.jobs import found_file
    from leasehold.client.files import download

    with gateway() as client:
        file = found_file(client, which)
        path = placed(file.name, to)
        download(
            lambda offset, count: client.files.read(file.sha256, offset, count), file.sha256, file.size_bytes, path
        )
    if json:
        answer_json({"file": file, "path": path})
    else:
        talk(f"leasehold: {path} written")


def placed(name: str, to: Path | None) -> Path:
    """Say where a file of this name is written: to this path, or into this folder."""
    return Path(name) if to is None else to / name if to.is_dir() else to


@app.command("list")
def list_files(json: Json = False) -> None:
    """List your files, by name."""
    from leasehold.cli.live.jobs import FILES

    with gateway() as client:
        files = client.files.list()
    answer_rows("files", list(files), FILES, json=json)


@app.command("rm")
def remove(which: Which, json: Json = False) -> None:
    """Remove a stored file. A job that has not started yet and needs it cannot start any more."""
    from leasehold.cli.live.jobs import found_file

    with gateway() as client:
        file = found_file(client, which)
        client.files.remove(file.sha256)
    if json:
        answer_json({"file": file})
    else:
        answer(f"{file.name} removed")
