"""``leasehold store``: look after what a gateway keeps: its schema, its contents, copies of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import Config, Data, Json, StoreUrl, Wanted, needing_the_service, switch
from leasehold.cli.screen import answer, answer_json

if TYPE_CHECKING:
    from leasehold.service.store_status import Contents, StoreStatus

app = typer.Typer(help="Manage a gateway's store.", no_args_is_help=True)

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup file.", show_default=False)]


@app.command()
def status(config: Config = None, data: Data = None, store: StoreUrl = "", json: Json = False) -> None:
    """Show the store's schema, whether a gateway uses it, and its contents."""
    url = _url(config, data, store)
    from leasehold.service.store_status import look_at

    found = look_at(url)
    if json:
        answer_json(_status_json(found))
    else:
        answer(_status_text(found))


@app.command()
def migrate(config: Config = None, data: Data = None, store: StoreUrl = "", json: Json = False) -> None:
    """Migrate the store to this version's schema; `leasehold serve` also does so at start."""
    url = _url(config, data, store)
    from leasehold.service.store.store import open_store
    from leasehold.service.store_status import look_at

    before = look_at(url).revision
    open_store(url).close()
    after = look_at(url).revision
    outcome = f"It had this program's schema already ({after})." if before == after else f"From {before} to {after}."
    _answer(outcome, {"before": before, "after": after}, json=json)


@app.command()
def backup(
    file: BackupFile,
    force: Annotated[bool, switch("--force", does="Overwrite FILE if it exists.")] = False,
    config: Config = None,
    data: Data = None,
    store: StoreUrl = "",
    json: Json = False,
) -> None:
    """Copy the whole store to FILE; the gateway may be running."""
    url = _url(config, data, store)
    from leasehold.service.store.backup import backup as back_up
    from leasehold.service.store.store import Store
    from leasehold.service.store_status import existing

    with Store(existing(url)) as opened:  # as it is: what is older than this program is copied so
        back_up(opened, file, replace=force)
    _answer(f"The store is in {file}.", {"file": str(file), "bytes": file.stat().st_size}, json=json)


@app.command()
def restore(
    file: BackupFile,
    replace: Annotated[bool, switch("--replace", does="Replace the current contents of the store.")] = False,
    config: Config = None,
    data: Data = None,
    store: StoreUrl = "",
    json: Json = False,
) -> None:
    """Restore the store from FILE; no gateway may be using it."""
    url = _url(config, data, store)
    from leasehold.service.store.backup import restore as put_back

    put_back(file, url, replace=replace)
    _answer(f"The store is as it was in {file}.", {"file": str(file)}, json=json)


@app.command("new-admin-token")
def new_admin_token(config: Config = None, data: Data = None, store: StoreUrl = "", json: Json = False) -> None:
    """Issue a new bootstrap administrator token, and revoke the old one.

    No gateway may be using the store.
    """
    url = _url(config, data, store)
    from leasehold.service.auth.bootstrap_token import renew_admin_token
    from leasehold.service.clock import wall_ms
    from leasehold.service.store.store import open_store
    from leasehold.service.store_status import existing

    wanted = Wanted(config, data, store)
    place = wanted.place(wanted.configuration())
    existing(url)
    with open_store(url) as opened:
        opened.acquire_writer_lock()
        file = renew_admin_token(opened, place.folder, wall_ms())
    _answer(f"The administrator's token is in {file}.", {"token_file": str(file)}, json=json)


def _url(config: Path | None, data: Path | None, store: str) -> str:
    """Say where the store is that is meant."""
    with needing_the_service("`leasehold store`"):
        wanted = Wanted(config, data, store)
        configuration = wanted.configuration()
        place = wanted.place(configuration)
    return place.store_url(configuration.service)


def _answer(text: str, facts: dict[str, object], *, json: bool) -> None:
    if json:
        answer_json(facts)
    else:
        answer(text)


def _status_json(status: "StoreStatus") -> dict[str, Any]:
    """Give it as JSON."""
    contents = status.contents
    return {
        "store": status.url,
        "schema": status.revision,
        "schema_is_current": contents is not None,
        "in_use": status.in_use,
        "last_seq": None if contents is None else contents.last_seq,
        "leases": [] if contents is None else _counts(contents),
    }


def _counts(contents: "Contents") -> list[dict[str, Any]]:
    return [{"site": site, "state": state, "count": count} for (site, state), count in sorted(contents.leases.items())]


def _status_text(status: "StoreStatus") -> str:
    """Give it as a few lines."""
    age = "older than this program: leasehold store migrate" if status.contents is None else "this program's"
    lines = [
        f"store    {status.url}",
        f"schema   {status.revision or 'none yet'} ({age})",
        f"gateway  {'is using it' if status.in_use else 'not running'}",
    ]
    return "\n".join(lines if status.contents is None else [*lines, *_content_lines(status.contents)])


def _content_lines(contents: "Contents") -> list[str]:
    leases = [f"{n} {state} at {site or 'the gateway'}" for (site, state), n in sorted(contents.leases.items())]
    return [f"journal  {contents.last_seq} lines", f"leases   {', '.join(leases) or 'none open'}"]
