"""How a store is, for people and for programs."""

from typing import Any

from leasehold.service.store_status import Contents, StoreStatus


def as_json(status: StoreStatus) -> dict[str, Any]:
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


def _counts(contents: Contents) -> list[dict[str, Any]]:
    return [{"site": site, "state": state, "count": count} for (site, state), count in sorted(contents.leases.items())]


def as_text(status: StoreStatus) -> str:
    """Give it as a few lines."""
    age = "older than this program: leasehold store migrate" if status.contents is None else "this program's"
    lines = [
        f"store    {status.url}",
        f"schema   {status.revision or 'none yet'} ({age})",
        f"gateway  {'is using it' if status.in_use else 'none is using it'}",
    ]
    return "\n".join(lines if status.contents is None else [*lines, *_content_lines(status.contents)])


def _content_lines(contents: Contents) -> list[str]:
    leases = [f"{n} {state} at {site or 'the gateway'}" for (site, state), n in sorted(contents.leases.items())]
    return [f"journal  {contents.last_seq} lines", f"leases   {', '.join(leases) or 'none is open'}"]
