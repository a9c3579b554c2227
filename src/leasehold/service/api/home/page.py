"""The pages, rendered here: they need no script, and nothing comes from elsewhere."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Any

import jinja2
from markupsafe import Markup

from leasehold.model.request import LEASE_TYPES
from leasehold.service.sites import FREE, GUESTS, LOCAL, OUT, Glance, Overview

KINDS = (LOCAL, *reversed(LEASE_TYPES), GUESTS, FREE, OUT)
"""Order of the bars: from the VMs that stay longest to those that are free or out of service."""

MOST_ROWS = 200


def render(template: str, version: str, **values: object) -> str:
    """Render a page; whatever comes from outside is escaped."""
    return _environment().get_template(template).render(style=Markup(_style()), version=version, **values)  # noqa: S704


@cache
def headers() -> Mapping[str, str]:
    """Say what a browser may do for these pages: no script at all, and forms only for this gateway."""
    policy = {"style-src": source_hash(_style()), "form-action": "'self'"}
    return page_headers(policy, cache="no-store")


def shown(overview: Overview) -> dict[str, Any]:
    """Give an overview as the template draws it: each site with the parts of its bar."""
    sites = [
        {
            "name": site.name,
            "slots": site.slots,
            "status": site.status,
            "kinds": site.kinds,
            "parts": _parts(site),
        }
        for site in overview.sites
    ]
    used = {kind for site in overview.sites for kind, vms in site.kinds.items() if vms}
    kinds = [kind for kind in KINDS if kind in used or kind in (LOCAL, FREE)]
    holders = (
        {"site": site.name, "consumer": consumer, "group": group, "vms": vms, "leases": leases}
        for site in overview.sites
        for (consumer, group), (vms, leases) in site.holders.items()
    )
    rows = list(islice(holders, MOST_ROWS))
    more = sum(len(site.holders) for site in overview.sites) - len(rows)
    return {
        "overview": {"sites": sites, "waiting": overview.waiting},
        "kinds": kinds,
        "holders": rows,
        "more": more,
    }


def _parts(site: Glance) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    begin = 0
    for kind in KINDS:
        vms = site.kinds.get(kind, 0)
        if vms or kind == LOCAL or (kind == FREE and not site.kinds.get(OUT)):
            parts.append({"id": kind.replace(" ", "-"), "name": kind, "vms": vms, "begin": begin})
        begin += vms
    return parts


def problem_page(version: str, body: bytes) -> bytes:
    """Show a problem (RFC 9457) to a person."""
    problem: Mapping[str, Any] = json.loads(body)
    page = render("problem.html", version, title=problem["title"], detail=problem["detail"], status=problem["status"])
    return page.encode()


def docs_page(version: str, tags: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """List the routes, by what they are about."""
    return render("docs.html", version, tags=tags)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("leasehold.service.api.home", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def _style() -> str:
    return (files(__package__) / "home.css").read_text(encoding="utf-8")


# What a browser may do with a page of ours: nothing but what the page says that it needs


def page_headers(policy: Mapping[str, str], *, cache: str) -> dict[str, str]:
    """Give the headers of a page; ``policy`` are the sources that it is allowed beside images in itself."""
    allowed = {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        **policy,
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {source}" for name, source in allowed.items()),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": cache,
    }


def source_hash(text: str) -> str:
    """Name an inline style or script as a source, by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
