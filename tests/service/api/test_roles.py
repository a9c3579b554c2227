"""Every route, asked by everybody: what each role gets, written down here a second time and by hand.

Whoever adds a route adds its line; a route without one fails the walk.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Match, Route
from tests.service.api.house import GENEROUS, House, asked, house_in

from leasehold.configuration.tables import DomainSpec, SharingSpec
from leasehold.service.api.app import DOCUMENT
from leasehold.service.api.authorizer import GuardedRoute
from leasehold.service.auth.principal import Role
from leasehold.service.config import ServiceConfig, SiteSpec

# The lease in a path is the caller's own at lyon, or of climate: in the group astro and at lyon, of no group
# and at das3, of no group and at lyon. The manager is one of astro, the operator is of das3, and the peer
# speaks for jena, a site with a manager of its own. Agreements are described below.
EXPECTED = """
                                                          nobody  member  manager  operator  admin  peer
POST   /v1/leases                                            401     201      201       403    201   403
POST   /v1/leases (local at das3)                            401     201      201       201    201   403
POST   /v1/leases (local at lyon)                            401     403      403       403    201   403
POST   /v1/leases (for astro)                                401     201      201       403    201   403
POST   /v1/leases (for lattice)                              401     403      403       403    201   403
GET    /v1/leases                                            401     200      200       200    200   403
GET    /v1/leases/{own}                                      401     200      200       404    200   403
GET    /v1/leases/{in astro}                                 401     404      200       404    200   403
GET    /v1/leases/{at das3}                                  401     404      404       200    200   403
GET    /v1/leases/{elsewhere}                                401     404      404       404    200   403
DELETE /v1/leases/{own}                                      401     200      200       404    200   403
DELETE /v1/leases/{in astro}                                 401     404      200       404    200   403
DELETE /v1/leases/{at das3}                                  401     404      404       200    200   403
DELETE /v1/leases/{elsewhere}                                401     404      404       404    200   403
POST   /v1/leases/{own}/checkpointed                         401     200      200       403    200   403
POST   /v1/leases/{in astro}/checkpointed                    401     404      200       403    200   403
POST   /v1/leases/{at das3}/checkpointed                     401     404      404       403    200   403
POST   /v1/leases/{elsewhere}/checkpointed                   401     404      404       403    200   403
POST   /v1/leases/{own}/extension                            401     200      200       403    200   403
POST   /v1/leases/{in astro}/extension                       401     404      200       403    200   403
POST   /v1/leases/{at das3}/extension                        401     404      404       403    200   403
POST   /v1/leases/{elsewhere}/extension                      401     404      404       403    200   403
GET    /v1/leases/{own}/journal                              401     200      200       404    200   403
GET    /v1/leases/{in astro}/journal                         401     404      200       404    200   403
GET    /v1/leases/{at das3}/journal                          401     404      404       200    200   403
GET    /v1/leases/{elsewhere}/journal                        401     404      404       404    200   403
GET    /v1/leases/{own}/console                              401     200      200       404    200   403
GET    /v1/leases/{in astro}/console                         401     404      403       404    403   403
GET    /v1/leases/{at das3}/console                          401     404      404       403    403   403
GET    /v1/leases/{elsewhere}/console                        401     404      404       404    403   403
GET    /v1/leases/{own}/access                               401     200      200       404    200   403
GET    /v1/leases/{in astro}/access                          401     404      403       404    403   403
GET    /v1/leases/{at das3}/access                           401     404      404       403    403   403
GET    /v1/leases/{elsewhere}/access                         401     404      404       404    403   403
GET    /v1/leases/{own}/explanation                          401     200      200       404    200   403
GET    /v1/leases/{in astro}/explanation                     401     404      200       404    200   403
GET    /v1/leases/{at das3}/explanation                      401     404      404       200    200   403
GET    /v1/leases/{elsewhere}/explanation                    401     404      404       404    200   403
POST   /v1/leases/plan                                    401     200      200       403    200   403
POST   /v1/leases/plan (local at das3)                    401     200      200       200    200   403
POST   /v1/coallocations                                      401     201      201       403    201   403
POST   /v1/coallocations/plan                              401     200      200       403    200   403
GET    /v1/coallocations                                      401     200      200       200    200   403
GET    /v1/coallocations/{own coallocation}                          401     200      200       404    200   403
GET    /v1/coallocations/{coallocation at das3}                      401     404      404       200    200   403
DELETE /v1/coallocations/{own coallocation}                          401     200      200       404    200   403
DELETE /v1/coallocations/{coallocation at das3}                      401     404      404       200    200   403
POST   /v1/jobs                                              401     201      201       403    201   403
POST   /v1/jobs (for astro)                                  401     201      201       403    201   403
POST   /v1/jobs (for lattice)                                401     403      403       403    201   403
POST   /v1/jobs/plan                                      401     200      200       403    200   403
GET    /v1/jobs                                              401     200      200       200    200   403
GET    /v1/jobs/{own job}                                    401     200      200       404    200   403
GET    /v1/jobs/{job in astro}                               401     404      200       404    200   403
GET    /v1/jobs/{job at das3}                                401     404      404       200    200   403
GET    /v1/jobs/{job elsewhere}                              401     404      404       404    200   403
GET    /v1/jobs/{own job}/estimate                           401     404      404       404    404   403
GET    /v1/jobs/{own job}/output                             401     200      200       404    200   403
GET    /v1/jobs/{own job}/explanation                        401     200      200       404    200   403
GET    /v1/jobs/{job in astro}/explanation                   401     404      200       404    200   403
GET    /v1/jobs/{job at das3}/explanation                    401     404      404       200    200   403
GET    /v1/jobs/{job elsewhere}/explanation                  401     404      404       404    200   403
GET    /v1/jobs/{own job}/result                             401     404      404       404    404   403
GET    /v1/jobs/{own job}/files/out                          401     404      404       404    404   403
DELETE /v1/jobs/{own job}                                    401     200      200       404    200   403
DELETE /v1/jobs/{job in astro}                               401     404      200       404    200   403
DELETE /v1/jobs/{job at das3}                                401     404      404       200    200   403
DELETE /v1/jobs/{job elsewhere}                              401     404      404       404    200   403
POST   /v1/files                                             401     200      200       403    200   403
GET    /v1/files                                             401     200      200       200    200   403
GET    /v1/files/{file}                                      401     200      200       200    200   403
GET    /v1/files/{file}/content                              401     200      200       200    200   403
PUT    /v1/files/{file}/content                              401     422      422       403    422   403
DELETE /v1/files/{file}                                      401     204      204       403    204   403
GET    /v1/nodes                                             401     200      200       200    200   403
GET    /v1/images                                            401     200      200       200    200   403
GET    /v1/changes                                           401     200      200       200    200   403
GET    /v1/sites                                             401     200      200       200    200   403
GET    /v1/sites/das3                                        401     200      200       200    200   403
POST   /v1/sites/das3/drain                                  401     403      403       200    200   403
POST   /v1/sites/lyon/drain                                  401     403      403       403    200   403
POST   /v1/sites/das3/resume                                 401     403      403       200    200   403
POST   /v1/sites/lyon/resume                                 401     403      403       403    200   403
DELETE /v1/sites/nowhere                                     401     403      403       403    404   403
POST   /v1/sites/jena/messages                                401     403      403       403    200   200
POST   /v1/sites/kiel/messages                                401     403      403       403    200   403
GET    /v1/sites/jena/leases/999999/inputs/{file}             401     403      403       403    404   404
GET    /v1/sites/kiel/leases/999999/inputs/{file}             401     403      403       403    404   403
POST   /v1/sites/jena/leases/999999/outputs                   401     403      403       403    404   404
POST   /v1/sites/kiel/leases/999999/outputs                   401     403      403       403    404   403
PUT    /v1/sites/jena/leases/999999/outputs/{file}/content    401     403      403       403    404   404
PUT    /v1/sites/kiel/leases/999999/outputs/{file}/content    401     403      403       403    404   403
GET    /v1/peers                                             401     403      403       403    200   403
GET    /v1/peers/nobody                                      401     403      403       403    404   403
PUT    /v1/peers/ulm                                         401     403      403       403    200   403
DELETE /v1/peers/nobody                                      401     403      403       403    404   403
GET    /v1/agreements                                        401     200      200       200    200   403
GET    /v1/agreements/{of astro}                             401     200      200       200    200   403
GET    /v1/agreements/{of lattice}                           401     404      404       404    200   403
GET    /v1/agreements/{published}                            401     200      200       200    200   403
POST   /v1/agreements (of astro)                             401     403      201       201    201   403
POST   /v1/agreements (of lattice)                           401     403      403       403    201   403
PUT    /v1/agreements/{of astro}                             401     403      200       200    200   403
PUT    /v1/agreements/{of lattice}                           401     403      404       404    200   403
PUT    /v1/agreements/{published}                            401     403      403       403    200   403
POST   /v1/agreements/{of astro}/sign (as consumer)          401     403      200       403    200   403
POST   /v1/agreements/{of astro}/sign (as provider)          401     403      403       200    200   403
POST   /v1/agreements/{a part}/sign (as provider)            401     403      200       403    200   403
POST   /v1/agreements/{of lattice}/sign (as consumer)        401     403      404       404    200   403
POST   /v1/agreements/{of both}/sign (as provider)           401     403      403       403    200   403
POST   /v1/agreements/{of astro}/publish                     401     403      200       200    200   403
POST   /v1/agreements/{of lattice}/publish                   401     403      404       404    200   403
POST   /v1/agreements/{signed}/suspend                       401     403      403       200    200   403
POST   /v1/agreements/{signed}/resume                        401     403      403       200    200   403
POST   /v1/agreements/{signed}/revoke                        401     403      200       200    200   403
POST   /v1/agreements/{of lattice}/revoke                    401     403      404       404    200   403
POST   /v1/agreements/{published}/revoke                     401     403      403       403    200   403
GET    /v1/penalties                                         401     200      200       200    200   403
POST   /v1/penalties/7/lift                                  401     403      403       404    404   403
GET    /v1/usage                                             401     200      200       200    200   403
GET    /v1/usage/balance                                     401     200      200       200    200   403
GET    /v1/queue                                             401     200      200       200    200   403
GET    /v1/queue/leases                                      401     200      200       200    200   403
GET    /v1/decisions                                         401     200      200       200    200   403
GET    /v1/timeline                                          401     200      200       200    200   403
GET    /v1/usage/statement?month=2026-10&consumer=astro      401     200      200       200    200   403
GET    /v1/estimates                                         401     200      200       200    200   403
GET    /v1/estimates/{own}                                   401     404      404       404    404   403
GET    /v1/calibration                                       401     200      200       200    200   403
POST   /v1/whatif                                            401     403      403       200    200   403
GET    /v1/snapshot                                          401     403      403       403    200   403
POST   /v1/tokens                                            401     403      403       403    201   403
GET    /v1/tokens                                            401     403      403       403    200   403
DELETE /v1/tokens/{token}                                    401     403      403       403    204   403
GET    /v1/tokens/self                                       401     200      200       200    200   200
GET    /form/jobs                                            303     200      200       403    200   403
POST   /form/jobs/words                                      401     200      200       403    200   403
POST   /form/jobs/xml                                        401     200      200       403    200   403
GET    /                                                     200     200      200       200    200   200
GET    /sign-in                                              200     200      200       200    200   200
POST   /sign-in                                              403     403      403       403    403   403
POST   /sign-in/provider                                     403     403      403       403    403   403
GET    /sign-in/callback                                     502     502      502       502    502   502
POST   /sign-out                                             401     303      303       303    303   403
GET    /loans                                                303     200      200       200    200   403
GET    /agreements/{of astro}                                303     200      200       200    200   403
GET    /agreements/{of lattice}                              303     404      404       404    200   403
GET    /queue                                                303     200      200       200    200   403
GET    /timeline                                             303     200      200       200    200   403
GET    /leases                                               303     200      200       200    200   403
GET    /leases/{own}                                         303     200      200       404    200   403
GET    /leases/{in astro}                                    303     404      200       404    200   403
GET    /leases/{at das3}                                     303     404      404       200    200   403
POST   /leases/{in astro}/cancel                             401     404      303       404    303   403
POST   /leases/{at das3}/cancel                              401     404      404       303    303   403
POST   /leases/{own}/extend                                  401     422      422       403    422   403
POST   /leases/{at das3}/extend                              401     404      404       403    422   403
GET    /nodes                                                303     200      200       200    200   403
POST   /sites/das3/drain                                     401     403      403       303    303   403
POST   /sites/lyon/drain                                     401     403      403       403    303   403
POST   /sites/das3/resume                                    401     403      403       303    303   403
POST   /sites/lyon/resume                                    401     403      403       403    303   403
GET    /what-if                                              303     200      200       200    200   403
GET    /submit                                               303     200      200       200    200   403
POST   /submit                                               401     422      422       422    422   403
GET    /history                                              303     200      200       200    200   403
GET    /decisions                                            303     200      200       200    200   403
GET    /decisions/0                                          303     404      404       404    404   403
GET    /news?after=0                                         303     200      200       200    200   403
GET    /static/dashboard.css                                 200     200      200       200    200   200
GET    /docs                                                 200     200      200       200    200   200
GET    /favicon.ico                                          204     204      204       204    204   204
GET    /healthz                                              200     200      200       200    200   200
GET    /readyz                                               200     200      200       200    200   200
GET    /metrics                                              401     403      403       200    200   403
GET    /v1/openapi.json                                      200     200      200       200    200   200
"""

_WIDTH = 58

CALLERS: dict[str, dict[str, Any]] = {
    "member": {"roles": (Role.MEMBER,), "groups": ("astro",), "sites": ("das3",)},
    "manager": {"roles": (Role.MEMBER, Role.GROUP_MANAGER), "groups": ("astro",), "sites": ("das3",)},
    "operator": {"roles": (Role.SITE_OPERATOR,), "sites": ("das3",)},
    "admin": {"roles": (Role.FEDERATION_ADMIN,)},
    "peer": {"roles": (Role.PEER,), "sites": ("jena",)},
}
LEASES: dict[str, dict[str, str]] = {
    "own": {"site": "lyon"},
    "in astro": {"group": "astro", "site": "lyon"},
    "at das3": {"site": "das3"},
    "elsewhere": {"site": "lyon"},
}
SITES = ("das3", "lyon")
NODE: dict[str, Any] = {"cores": 1000, "memory_mib": 2**24, "disk_mib": 10**6}
"""The one node of each site, which has its name as software, so that a job can be bound to it."""

JOBS: dict[str, dict[str, str]] = {
    "own job": {"site": "lyon"},
    "job in astro": {"group": "astro", "site": "lyon"},
    "job at das3": {"site": "das3"},
    "job elsewhere": {"site": "lyon"},
}
"""Where each is tried; all but the first are of climate."""

COALLOCATIONS = {"own coallocation": "lyon", "coallocation at das3": "das3"}
"""Where all of its components are; the second is of climate."""

MESSAGES = {
    "status": {
        "identity": "1", "slots": 1, "speed_mips": 1, "reference_mips": 1, "driver": "emulated",
        "can_suspend": True, "can_migrate": True, "lends": True, "local_vms": 0, "guest_vms": 0,
        "waiting_local": 0, "waiting_guests": 0, "waiting_local_vms": 0, "waiting_guest_vms": 0,
    },
    "acknowledged": 0,
}  # fmt: skip
AGREEMENTS: dict[str, dict[str, Any]] = {
    "of astro": {"consumer": "astro"},
    "of lattice": {"consumer": "lattice", "provider": "lyon"},
    "of both": {"consumer": "astro", "provider": "ours"},
    "published": {"consumer": "lattice", "provider": "lyon"},
    "signed": {"consumer": "astro"},
    "a part": {"consumer": "astro/theory", "relative": True},
}
"""Between das3 and its consumer unless they say otherwise; `ours` is the domain of das3 and lyon."""

NAMES = count()
BODIES: dict[str, Any] = {
    "POST /v1/leases": asked(),
    "POST /v1/leases (local at das3)": asked(type=None, local=True, site="das3", group=""),
    "POST /v1/leases (local at lyon)": asked(type=None, local=True, site="lyon", group=""),
    "POST /v1/leases (for astro)": asked(group="astro"),
    "POST /v1/leases (for lattice)": asked(group="lattice"),
    "POST /v1/coallocations": {"components": [{"vms": 1}, {"vms": 2}], "duration_s": 60},
    "POST /v1/jobs": {"command": ["sleep", "3600"], "execution_s": 60},
    "POST /v1/jobs (for astro)": {"command": ["true"], "execution_s": 60, "group": "astro"},
    "POST /v1/jobs (for lattice)": {"command": ["true"], "execution_s": 60, "group": "lattice"},
    "POST /v1/files": {"sha256": "0" * 64, "name": "in.dat", "size_bytes": 1},
    "POST /v1/jobs/plan": {"command": ["true"], "execution_s": 60},
    "POST /form/jobs/words": {"command": ["true"]},
    "POST /form/jobs/xml": {"command": ["true"], "execution_s": 60},
    "POST /v1/whatif": {"changes": [{"drain": "das3"}], "horizon_s": 1, "replications": 2},
    "POST /v1/leases/plan": asked(),
    "POST /v1/leases/plan (local at das3)": asked(type=None, local=True, site="das3", group=""),
    "POST /v1/coallocations/plan": {"components": [{"vms": 1}, {"vms": 2}], "duration_s": 60},
    "POST /v1/sites/jena/messages": MESSAGES,
    "POST /v1/sites/kiel/messages": MESSAGES,
    "POST /v1/sites/jena/leases/999999/outputs": {"sha256": "0" * 64, "name": "out.dat", "size_bytes": 1},
    "POST /v1/sites/kiel/leases/999999/outputs": {"sha256": "0" * 64, "name": "out.dat", "size_bytes": 1},
    "PUT /v1/peers/ulm": {"max_vms": 4},
    "POST /v1/tokens": {"consumer": "physics", "roles": ["member"]},
}


def lines() -> Iterator[tuple[str, str, int]]:
    """Read the table: what is asked, by whom, and the status of the answer."""
    head, *rows = EXPECTED.strip("\n").splitlines()
    for row in rows:
        request, cells = " ".join(row[:_WIDTH].split()), row[_WIDTH:].split()
        for caller, status in zip(head.split(), cells, strict=True):
            yield request, caller, int(status)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for the whole walk, with room for all that is asked for on the way."""
    folder: Path = tmp_path_factory.mktemp("house")
    sites = tuple(SiteSpec(name, 1000, GENEROUS, options={"nodes": [NODE | {"software": [name]}]}) for name in SITES)
    config = ServiceConfig(sites, domains=(DomainSpec("ours", SITES),), sharing=SharingSpec())
    with house_in(folder, config=config) as house:
        house.wait_for_nodes(len(SITES))
        yield house


@pytest.fixture(scope="module")
def token_of(house: House) -> Callable[[str], str]:
    """The tokens of all callers; each is a consumer of its own."""
    made = {
        name: house.token(
            *one["roles"], consumer=f"the-{name}", groups=one.get("groups", ()), sites=one.get("sites", ())
        )
        for name, one in CALLERS.items()
    }
    return lambda caller: made.get(caller, "")


def job(house: House, caller: str, kind: str) -> str:
    """Make a job, and give its number."""
    what = JOBS[kind]
    owner = house.token(
        consumer=f"the-{caller}" if kind == "own job" else "climate",
        groups=(what["group"],) if "group" in what else (),
    )
    said = {"command": ["sleep", "3600"], "execution_s": 60, "software": [what["site"]]}
    made = house.ask("POST", "/v1/jobs", owner, json=said)
    assert made.json()["attempts"], made.text
    return str(made.json()["id"])


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The SHA-256 of nothing."""


def terms(kind: str, name: str) -> dict[str, Any]:
    """The terms of an agreement of this kind."""
    half = {"kind": "decay", "share": 0.5, "window_s": 600}
    return {"name": name, "provider": "das3", **half, **AGREEMENTS[kind]}


def agreement(house: House, kind: str) -> str:
    """Make an agreement, and give its name."""
    admin, name = house.token(Role.FEDERATION_ADMIN, consumer="founder"), f"agreement-{next(NAMES)}"
    parent = {"parent": agreement(house, "of astro")} if kind == "a part" else {}
    made = house.ask("POST", "/v1/agreements", admin, json=terms(kind, name) | parent)
    assert made.status_code == 201, made.text
    if kind == "published":
        house.ask("POST", f"/v1/agreements/{name}/publish", admin)
    if kind == "signed":
        for side in ("provider", "consumer"):
            house.ask("POST", f"/v1/agreements/{name}/sign", admin, json={"side": side, "revision": 1})
    return name


def coallocation(house: House, caller: str, kind: str) -> str:
    """Make a co-allocation, and give its number."""
    owner = house.token(consumer=f"the-{caller}" if kind == "own coallocation" else "climate")
    components = [{"vms": 1, "site": COALLOCATIONS[kind]}]
    made = house.ask("POST", "/v1/coallocations", owner, json={"components": components, "duration_s": 60})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def place(house: House, caller: str, kind: str) -> str:
    """Make what a path speaks of, and give what stands for it there."""
    if kind == "token":
        return house.token().split("_")[1]
    if kind == "file":
        stored = house.federation.files.announce(f"the-{caller}", EMPTY, "empty", 0, 0)
        return stored.sha256
    if kind in AGREEMENTS:
        return agreement(house, kind)
    if kind in JOBS:
        return job(house, caller, kind)
    if kind in COALLOCATIONS:
        return coallocation(house, caller, kind)
    what = LEASES[kind]
    owner = house.token(
        consumer=f"the-{caller}" if kind == "own" else "climate",
        groups=(what["group"],) if "group" in what else (),
        sites=(what["site"],),
    )
    lease = house.submit(owner, type=None, local=True, vms=1, duration_s=60)
    return str(lease["id"])


def split(request: str) -> tuple[str, str, str, str]:
    """Take ``GET /v1/leases/{own}/journal (why)`` apart: method, what is before and after {own}, and own."""
    method, path = request.partition(" (")[0].split(" ", 1)
    before, _, rest = path.partition("{")
    kind, _, after = rest.partition("}")
    return method, before, after, kind


@pytest.mark.parametrize(("request_", "caller", "status"), list(lines()))
def test_everybody_gets_what_their_role_gives(
    house: House, token_of: Callable[[str], str], request_: str, caller: str, status: int
) -> None:
    method, before, after, kind = split(request_)
    path = f"{before}{place(house, caller, kind) if kind else ''}{after}"
    if path in ("/v1/changes", "/news?after=0"):
        with house.stream(path, token_of(caller)) as stream:
            assert stream.answered() == status
        return
    body = body_for(request_, path, kind)
    if path.endswith("/checkpointed"):
        house.running(int(path.split("/")[-2]), token_of("admin"))
    answer = house.ask(method, path, token_of(caller), json=body)
    assert answer.status_code == status, answer.text


def body_for(request: str, path: str, kind: str) -> Any:
    """What goes with a request."""
    if path.endswith("/extension"):
        return {"by_s": 60}
    if path.endswith("/sign"):
        return {"side": request.rpartition("as ")[2].rstrip(")"), "revision": 1}
    if request.startswith("PUT /v1/agreements"):
        return terms(kind, path.rpartition("/")[2])
    if request.startswith("POST /v1/agreements ("):
        return terms(request.partition("(")[2].rstrip(")"), f"agreement-{next(NAMES)}")
    return BODIES.get(request)


def routes(house: House) -> list[Route]:
    """All routes that there are; there is nothing else in the application."""
    found = [route for route in house.app.routes if isinstance(route, Route)]
    assert len(found) == len(house.app.routes)
    return found


def test_the_table_has_every_route_and_no_other(house: House) -> None:
    walked = set()
    for request, _, _ in lines():
        method, before, after, kind = split(request)
        path = f"{before}{'1' if kind else ''}{after}".partition("?")[0]
        scope = {"type": "http", "method": method, "path": path}
        walked.add(next(route.name for route in routes(house) if route.matches(scope)[0] is Match.FULL))
    assert sorted(walked) == sorted(route.name for route in routes(house))


def test_every_route_but_the_one_of_the_document_says_what_one_must_be_allowed(house: House) -> None:
    for route in routes(house):
        if route.path != DOCUMENT:
            assert isinstance(route, GuardedRoute)
            assert route.permissions


def test_a_route_that_does_not_say_what_it_needs_cannot_be_made() -> None:
    async def forgotten() -> None:
        """Somebody was in a hurry."""

    with pytest.raises(AttributeError, match="permissions"):
        GuardedRoute("/forgotten", forgotten)
