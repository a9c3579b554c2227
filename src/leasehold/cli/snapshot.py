"""``leasehold snapshot``: what decisions rest on, as a file that can be looked at, decided again, and sent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live import times
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, answer_table

if TYPE_CHECKING:
    from leasehold.gateway.sites import RemoteTold

app = typer.Typer(help="Take snapshots of a gateway, decide again what followed, and hide names.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot file.", show_default=False)]
_PATIENCE_S = 60.0


@app.command()
def take(
    out: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file to write; compressed with .gz.", show_default=False),
    ],
    record: Annotated[
        str,
        typer.Option(
            "--record", metavar="DURATION", help="Also record the decisions of the next 30s, 5m, ...; 5m at most."
        ),
    ] = "0s",
    json: Json = False,
) -> None:
    """Take a snapshot of the gateway, and record what follows.

    With --record the gateway goes on from what it wrote down, as after a restart; machines are not touched.
    """
    from leasehold.cli.live.gateway import gateway
    from leasehold.configuration.times import read_duration_s
    from leasehold.forecasting.file import read, write_content
    from leasehold.protocol.forecasts import SnapshotQuery

    record_s = 0 if record in {"0", "0s"} else max(1, round(read_duration_s("--record", record)))
    with gateway(timeout_s=_PATIENCE_S + record_s) as client:
        write_content(out, client.forecasts.snapshot(SnapshotQuery(record_s=record_s)))
    recording = read(out)
    if json:
        answer_json({"file": str(out), "leases": len(recording.snapshot.leases), "instants": len(recording.instants)})
    else:
        leases, instants = len(recording.snapshot.leases), len(recording.instants)
        answer(f"{out}: {leases} open leases, {instants} instants recorded after it")


@app.command()
def inspect(file: File, json: Json = False) -> None:
    """Show what is in a snapshot."""
    from leasehold.forecasting.file import read, snapshot_bytes
    from leasehold.forecasting.snapshot import holds_since_ms
    from leasehold.protocol.fields import moment_at

    recording = read(file)
    snapshot = recording.snapshot
    if json:
        from json import loads

        answer_json({"snapshot": loads(snapshot_bytes(snapshot)), "instants": len(recording.instants)})
        return
    answer(f"Taken {times.show_moment(moment_at(snapshot.taken_ms))}, guests routed by {snapshot.gateway.policy}")
    rows = []
    for site in snapshot.sites:
        there = [lease for lease in snapshot.leases if lease.site == site.name]
        held = [lease for lease in there if lease.held_since_ms >= 0]
        rows.append(
            [
                site.name,
                str(site.slots),
                str(sum(lease.vms for lease in held if lease.request.is_local)),
                str(sum(lease.vms for lease in held if not lease.request.is_local)),
                str(len(there) - len(held)),
                "silent" if site.is_silent else "lends" if site.lends else "drained",
            ]
        )
    for told in snapshot.remotes:
        there = [lease for lease in snapshot.leases if lease.site == told.name]
        held = [lease for lease in there if holds_since_ms(lease) >= 0]
        rows.append(
            [
                told.name,
                str(told.slots),
                "unknown",
                str(sum(lease.vms for lease in held)),
                str(len(there) - len(held)),
                "silent" if told.silent else "drained" if told.name in snapshot.drained or not told.lends else "lends",
            ]
        )
    answer_table(["site", "slots", "own", "guests", "waiting", ""], rows, range(1, 5))
    for told in snapshot.remotes:
        answer(_not_known(told))
    waiting = sum(not lease.site for lease in snapshot.leases)
    answer(f"{len(snapshot.leases)} open leases, {waiting} at no site; {len(snapshot.history)} requests of the past")
    answer(f"{len(snapshot.agreements or ())} agreements; {len(recording.instants)} instants recorded after it")


def _not_known(told: "RemoteTold") -> str:
    """Say of a site that decides for itself, or a peer, what a snapshot cannot have of it."""
    if told.is_peer:
        return f"{told.name} is a peer: of what is there, its widest site and what that had free are known, no more"
    others = max(0, told.slots - told.free_vms - told.running_guest_vms)
    who = f"{others} VMs held by its own users are taken to stay so"
    return f"{told.name} has a manager of its own: only this gateway's leases there are known; {who}"


@app.command()
def replay(file: File, json: Json = False) -> None:
    """Decide again what was decided after a snapshot; exits with 1 where anything comes out otherwise."""
    from dataclasses import asdict
    from json import dumps

    from leasehold.forecasting.file import read
    from leasehold.forecasting.replay import replay as decide_again

    outcome = decide_again(read(file))
    if json:
        answer_json({"file": str(file), **asdict(outcome)})
    elif outcome.difference is None:
        answer(f"{outcome.effects} effects of {outcome.instants} instants: all as recorded")
    else:
        where = outcome.difference
        answer(f"instant {where.index}, after {outcome.effects} effects as recorded:")
        answer(f"  recorded: {dumps(where.recorded)}\n  found:    {dumps(where.found)}")
    if outcome.difference is not None:
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def anonymise(
    file: File,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write, with other names.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Replace the names of sites, domains, agreements and consumers; what is decided stays the same.

    Sizes, times and the names of policies stay. The result is replayed before it is written.
    """
    from leasehold.forecasting.file import read, write
    from leasehold.forecasting.replay import anonymised

    write(out, anonymised(read(file)))
    if json:
        answer_json({"file": str(out)})
    else:
        answer(f"{out}: the same decisions under other names")
