"""Messages: what is asked for arrives whole, and nothing is believed that cannot be so."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.gateway.peering import MOST_HOPS, Hop
from leasehold.gateway.sites import can_follow, follow
from leasehold.model.errors import InvalidField
from leasehold.model.event import Carried, SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import MOVES, Step
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.service.drivers.protocol import NO_CONSTRAINTS, PlacementConstraints
from leasehold.service.drivers.staging import NO_FILES, JobFiles, StagedFile
from leasehold.service.messages import wire
from leasehold.service.messages.about_jobs import (
    BuildableTold,
    BuildTold,
    BuildWanted,
    CommandTold,
    NodesOffered,
    NodesTold,
)
from leasehold.service.messages.site_status import MOST_VMS, SiteStatus
from leasehold.service.messages.wire import Offer, Reported
from leasehold.service.store.rows import LeaseMetadata
from leasehold.simulation.workload.job import job_of

STATUS = SiteStatus("id", 8, 1000, 1000, "emulated", True, True, True, 0, 0, 0, 0, 0, 0)  # noqa: FBT003 - as it is told
HOP = Hop("6f1c/7", ("6f1c",), 0)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def leased(**fields: Any) -> Lease:
    usual: dict[str, Any] = {"id": 7, "lease_type": LeaseType.SUSPENDABLE, "vms": 2, "duration_ms": 60_000}
    request = Request(**(usual | {"submit_ms": 0, "ready_ms": 0, "consumer": "alice"} | fields))
    return Lease(7, request, request.vms, 0, 0, site="far")


def offered(lease: Lease) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(wire.offer(lease, LeaseMetadata(command=("true",)), HOP)))
    return told


def reported(state: LeaseState, **fields: Any) -> SiteReported:
    return SiteReported(7, "far", state, Reason.ROUTED, **fields)


NAMES = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
AMOUNTS = st.integers(1, 2**30)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": AMOUNTS,
    "lease_type": st.sampled_from(LeaseType),
    "vms": AMOUNTS,
    "duration_ms": AMOUNTS,
    "submit_ms": AMOUNTS,
    "ready_ms": AMOUNTS,
    "deadline_ms": st.none() | AMOUNTS,
    "site": st.none() | NAMES,
    "consumer": NAMES,
    "memory_mib": AMOUNTS,
    "from_peer": NAMES,
    "group": st.just("") | NAMES,
    "domain": TEXTS,
    "claims": st.lists(st.tuples(TEXTS, AMOUNTS), max_size=4).map(tuple),
    "wait": st.booleans(),
    "is_foreign": st.booleans(),
    "max_restarts": st.none() | st.integers(0, 100),
    "goes_back": st.booleans(),
    "cores": AMOUNTS,
    "gpu_model": TEXTS,
    "gpu_milli": AMOUNTS,
    "image": TEXTS,
    "login": st.booleans(),
    "prepared_until_ms": st.none() | AMOUNTS,
    "global_id": st.text(max_size=9),
    "via": st.just(()),
    "hop_limit": st.integers(0, MOST_HOPS),
    "on_nodes": st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), max_size=3).map(tuple),
}
OF_EACH_END = {"id", "submit_ms", "site", "from_peer", "is_foreign", "max_restarts", "goes_back"}
"""What each end says of a request for itself; anything else has to arrive as it was."""


GATEWAYS = st.text("0123456789abcdef-", min_size=1, max_size=64)
HOPS = st.builds(
    Hop,
    st.tuples(st.text("0123456789abcdef-", min_size=1, max_size=32), st.integers(1, 10**9)).map(
        lambda both: f"{both[0]}/{both[1]}"
    ),
    st.lists(GATEWAYS, min_size=1, max_size=MOST_HOPS).map(tuple),
    st.integers(0, MOST_HOPS - 1),
)


NODE_TOLD: dict[str, Any] = {
    "name": "n1",
    "takes_files": True,
    "is_host": False,
    "runs": True,
    "problem": "",
    "fault": "",
    "software": -1,
    **dict.fromkeys(("cores", "memory_mib", "disk_mib", "free_cores", "free_memory_mib", "free_disk_mib"), 1),
    **dict.fromkeys(("cpu_mhz", "bytes_per_s", "gpus", "gpu_shares"), 0),
    "free_gpus": (),
    "gpu_model": "",
}
OFFERED: dict[str, Any] = {"node": NODE_TOLD, "age_ms": 0, "lasts_ms": 60_000}
WRONG_OFFERS: list[dict[str, Any]] = [
    OFFERED | {"lasts_ms": -1},
    OFFERED | {"lasts_ms": 2**60},
    OFFERED | {"age_ms": -1},
    OFFERED | {"until_ms": 5},
    OFFERED | {"node": NODE_TOLD | {"software": 0}},
    OFFERED | {"node": NODE_TOLD | {"gpus": 2}},
]
LISTED: dict[str, Any] = {"listing": 1, "part": 0, "parts": 1, "base": "debian", "packages": [["bc", "1.07"]]}
WRONG_LISTINGS: list[dict[str, Any]] = [
    {"listing": 0},
    {"part": -1},
    {"part": 1},
    {"parts": 0},
    {"part": 64, "parts": 65},
    {"base": ""},
    {"base": "a\nb"},
    {"packages": [["bc"]]},
    {"packages": [["", "1"]]},
    {"packages": [["bc", "1" * 201]]},
    {"packages": [["b" * 201, "1"]]},
    {"packages": [["bc", 1]]},
    {"sure": True},
]
IMAGE: dict[str, Any] = {"name": "debian-bc", "software": [["bc", "1.07"]], "size_bytes": 5, "least_memory_mib": 1}
WRONG_BUILDS: list[dict[str, Any]] = [
    {},
    {"image": IMAGE, "problem": "no"},
    {"image": IMAGE | {"name": ""}},
    {"image": IMAGE | {"size_bytes": -1}},
    {"key": 5, "problem": "no"},
    {"problem": "no", "again": "yes"},
    {"problem": "x" * 2_001},
]
WANTED: dict[str, Any] = {"key": "k", "base": "debian", "packages": [["bc", "1.07"]]}
WRONG_WISHES: list[dict[str, Any]] = [{"base": ""}, {"packages": []}, {"packages": [["bc", "1"]] * 201}, {"key": None}]
TWO_A100: dict[str, Any] = {"gpu_model": "a100", "gpus": 2, "gpu_shares": 2}

CONSTRAINTS = st.just(NO_CONSTRAINTS) | st.builds(
    PlacementConstraints,
    nodes=st.lists(NAMES, max_size=3).map(tuple),
    image=TEXTS,
    cores=AMOUNTS,
    least=st.integers(0, 3),
)
"""Of an attempt: the rest is of leases that a site plans by its own nodes."""


FILE_NAMES = st.from_regex(r"[a-z0-9]{1,8}\.[a-z]{1,3}", fullmatch=True)
HASHES = st.text("0123456789abcdef", min_size=64, max_size=64)
STAGED = st.builds(StagedFile, FILE_NAMES, HASHES, st.integers(0, 2**50))
FILES = st.tuples(st.lists(STAGED, max_size=3).map(tuple), st.lists(FILE_NAMES, max_size=3).map(tuple))


@given(st.builds(Request, **FIELDS), TEXTS, st.lists(TEXTS, max_size=4), HOPS, st.booleans(), CONSTRAINTS, FILES)
def test_what_is_asked_for_arrives_whole(
    request: Request,
    name: str,
    command: list[str],
    hop: Hop,
    wait: bool,  # noqa: FBT001 - it is drawn
    constraints: PlacementConstraints,
    files: tuple[tuple[StagedFile, ...], tuple[str, ...]],
) -> None:
    lease = Lease(7, request, request.vms, 0, 0, site="far")
    metadata = LeaseMetadata(name, tuple(command), constraints=constraints, files=JobFiles(*files))
    body = json.loads(json.dumps(wire.offer(lease, metadata, hop, wait=wait)))
    offer = wire.read(body, "gateway")
    assert isinstance(offer, Offer)
    own = {name: getattr(offer.submit.request, name) for name in OF_EACH_END}
    said = {"id": 0, "submit_ms": 0, "site": None, "from_peer": "", "is_foreign": False}
    assert own == said | {"max_restarts": 0, "goes_back": True}  # its gateway sees to both
    assert offer.submit.request == replace(request, wait=wait, **asdict(hop), **own)
    there = JobFiles(*files, "gateway", 7) if any(files) else NO_FILES
    assert offer.submit.metadata == replace(metadata, origin="gateway", origin_id=7, files=there)


@pytest.mark.parametrize("name", ["../passwd", "/etc/passwd", "", ".", "..", "a/b", "new\nline"])
def test_no_file_has_a_name_that_leads_elsewhere(name: str) -> None:
    for files in ({"inputs": [], "outputs": [name]}, {"inputs": [_input(name)], "outputs": []}):
        with pytest.raises(InvalidField, match=r"message\.files"):
            wire.read(offered(leased()) | {"files": files}, "gateway")


def _input(name: str) -> dict[str, Any]:
    return {"name": name, "sha256": "ab" * 32, "size_bytes": 1}


def test_every_field_of_a_request_is_drawn() -> None:
    assert FIELDS.keys() == {field.name for field in fields(Request)}


def test_a_time_that_has_come_is_not_sent_as_the_sites_clock_may_be_behind() -> None:
    lease = leased(ready_ms=5)
    lease.dispatched_ms = 5
    assert wire.offer(lease, LeaseMetadata(), HOP)["ready_ms"] is None


def test_a_request_that_becomes_a_job_keeps_what_it_is_bound_to() -> None:
    request = leased(domain="das3", claims=(("gpu", 1),)).request
    assert (job_of(request).domain, job_of(request).claims) == ("das3", (("gpu", 1),))


@pytest.mark.parametrize(
    "lie",
    [
        {"vms": 10**30},
        {"duration_ms": 10**30},
        {"memory_mib": 1.5},
        {"ready_ms": -5},
        {"lease": 10**30},
        {"consumer": "a\0b"},
        {"consumer": "\ud800"},
        {"name": "x" * 200_000},
        {"command": ["x"] * 2_000},
        {"claims": [["gpu", 10**30]]},
        {"claims": "gpu"},
        {"domain": 5},
        {"via": []},
        {"via": ["a"] * (MOST_HOPS + 1)},
        {"via": ["a" * 65]},
        {"via": ["not/one"]},
        {"via": "a"},
        {"global_id": "7"},
        {"global_id": "a/0"},
        {"global_id": f"{'a' * 100}/1"},
        {"hop_limit": -1},
        {"hop_limit": MOST_HOPS},
        {"hop_limit": True},
    ],
)
def test_an_offer_that_cannot_be_understood_is_no_message(lie: dict[str, object]) -> None:
    with pytest.raises(InvalidField):
        wire.read(offered(leased()) | lie, "gateway")


@pytest.mark.parametrize(
    "lie",
    [
        {"vms": 0},
        {"vms": MOST_VMS + 1},
        {"memory_mib": -1},
        {"duration_ms": 2**53},
        {"claims": [["gpu", 0]]},
        {"on_nodes": ["n1"]},
    ],
)
def test_one_that_asks_for_what_nobody_could_ask_for_is_answered_with_a_refusal(
    lie: dict[str, object],
) -> None:
    """It is read, as else the line would stand still for ever."""
    offer = wire.read(offered(leased()) | lie, "gateway")
    assert isinstance(offer, Offer)
    with pytest.raises(InvalidField):
        wire.check_offer(offer.submit.request)


@pytest.mark.parametrize(
    "lie",
    [
        {"kind": "nodes", "listing": 0, "complete": True, "age_ms": 0},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": -1},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "gone": ["n"] * 201},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [{"name": "n1"}]},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [NODE_TOLD | {"software": 0}]},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [NODE_TOLD | {"gpus": 2}]},
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [NODE_TOLD | {"gpu_model": "a:b"}]},
        *(
            {
                "kind": "nodes",
                "listing": 1,
                "complete": True,
                "age_ms": 0,
                "nodes": [NODE_TOLD | TWO_A100 | {"free_gpus": free}],
            }
            for free in [[], [1_000], [1_000, 1_000, 0], [0, 1_000], [1_000, 600], [1_000, -1], [2_000, 0]]
        ),
        {"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [NODE_TOLD | {"cores": 2**60}]},
        *({"kind": "offered", "offers": [lie]} for lie in WRONG_OFFERS),
        {"kind": "offered", "offers": [OFFERED] * 33},
        {"kind": "images", "names": ["a\0b"]},
        *({"kind": "buildable", **LISTED, **lie} for lie in WRONG_LISTINGS),
        *({"kind": "built", "key": "k", **lie} for lie in WRONG_BUILDS),
        *({"kind": "build", **WANTED, **lie} for lie in WRONG_WISHES),
        {"kind": "output", "lease": 1, "text": "x" * 200_000, "error": "", "is_whole": True},
        {"kind": "read", "lease": 0},
        {"kind": "look", "anew": "yes"},
    ],
)
def test_nor_is_anything_about_jobs_believed_that_cannot_be(lie: dict[str, object]) -> None:
    with pytest.raises(InvalidField):
        wire.read(lie, "far")


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "buildable", **LISTED},
        {"kind": "buildable", **LISTED, "base": "", "packages": []},
        {"kind": "built", "key": "k", "image": IMAGE},
        {"kind": "built", "key": "k", "problem": "no", "again": True},
        {"kind": "build", **WANTED},
    ],
)
def test_what_is_said_of_builds_arrives_as_it_was_said(body: dict[str, Any]) -> None:
    read = wire.read(body, "far")
    assert isinstance(read, BuildableTold | BuildTold | BuildWanted)
    assert json.loads(read.model_dump_json(exclude_unset=True)) == body


def test_a_node_is_read_as_it_is_told() -> None:
    told = wire.read({"kind": "nodes", "listing": 1, "complete": True, "age_ms": 0, "nodes": [NODE_TOLD]}, "far")
    assert isinstance(told, NodesTold)
    assert [dict(node) for node in told.nodes] == [NODE_TOLD]


def test_so_is_one_that_offers_itself() -> None:
    told = wire.read({"kind": "offered", "offers": [OFFERED]}, "far")
    assert isinstance(told, NodesOffered)
    [offer] = told.offers
    assert (dict(offer.node), offer.age_ms, offer.lasts_ms) == (NODE_TOLD, 0, 60_000)


@pytest.mark.parametrize(
    "lie", [{"exit_status": 256}, {"exit_status": -1}, {"fault": "tired"}, {"ran_ms": -2}, {"detail": "x" * 3_000}]
)
def test_nor_an_end_of_a_command(lie: dict[str, object]) -> None:
    told = wire.report(leased(), LeaseMetadata(origin_id=7, reason=Reason.ROUTED.value), (), CommandTold(ended=True))
    assert isinstance(wire.read(told, "far"), Reported)
    with pytest.raises(InvalidField):
        wire.read(told | {"command": told["command"] | lie}, "far")


@pytest.mark.parametrize(
    "name", ["planned_ms", "first_start_ms", "preemptions", "overhead_vm_ms", "migrations", "work_left", "lease"]
)
@pytest.mark.parametrize("lie", [10**30, -2, "5", 1.5, None, True])
def test_so_is_a_report(name: str, lie: object) -> None:
    told = wire.report(leased(), LeaseMetadata(origin_id=7, reason=Reason.ROUTED.value), ())
    assert isinstance(wire.read(told, "far"), Reported)
    with pytest.raises(InvalidField):
        wire.read(told | {name: lie}, "far")


def test_saved_memory_travels_with_what_its_lease_went_through() -> None:
    lease = leased(lease_type=LeaseType.MIGRATABLE)
    lease.memory_at, lease.work_left, lease.preemptions, lease.migrations, lease.overhead_vm_ms = "north", 9, 3, 2, 4
    offer = wire.read(offered(lease), "gateway")
    assert isinstance(offer, Offer)
    assert offer.submit.carried == Carried("gateway", 9, 3, 2, 4)  # who sent it, whatever that calls its sites


@pytest.mark.parametrize("lie", [{"work_left": 0}, {"work_left": 10**30}, {"preemptions": -1}, {"memory_at": "../x"}])
def test_a_memory_that_cannot_be_is_no_message(lie: dict[str, object]) -> None:
    told = {"work_left": 9, "preemptions": 0, "migrations": 0, "overhead_vm_ms": 0}
    with pytest.raises(InvalidField):
        wire.read(offered(leased()) | {"carried": told | lie}, "gateway")


@given(st.dictionaries(st.text(), JSON) | JSON.map(lambda lie: offered(leased()) | {"claims": lie, "command": lie}))
def test_whatever_a_message_says_it_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        wire.read(body, "gateway")
    except InvalidField:
        return


@pytest.mark.parametrize(
    ("lie", "field"),
    [
        ({"slots": 10**12}, "slots"),
        ({"slots": 0}, "slots"),
        ({"local_vms": -1}, "local_vms"),
        ({"guest_vms": 10**30}, "guest_vms"),
        ({"widest_vms": 9}, "widest_vms"),
        ({"widest_vms": 8, "widest_free_vms": MOST_VMS}, "widest_free_vms"),
    ],
)
def test_a_site_cannot_have_more_than_it_has(lie: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidField, match=f"status.{field}"):
        SiteStatus.from_dict(STATUS.to_dict() | lie)
    assert SiteStatus.from_dict(STATUS.to_dict()) == STATUS


@pytest.mark.parametrize("first_start_ms", [-1, 5])
@pytest.mark.parametrize("lease_type", LeaseType)
def test_a_lease_is_never_followed_back_in_its_life(lease_type: LeaseType, first_start_ms: int) -> None:
    """Against the table of moves itself: what a walk from here cannot come to is not believed."""
    for state in LeaseState:
        lease = leased(lease_type=lease_type)
        lease.state, lease.first_start_ms = state, first_start_ms
        has_run = first_start_ms >= 0 or state is LeaseState.RUNNING
        within = {state}
        for _ in LeaseState:
            within |= {
                then
                for (before, step), then in MOVES[lease_type].items()
                if before in within
                and step is not Step.RESTART  # which its gateway decides
                and not (has_run and (before, step) == (LeaseState.SUSPENDING, Step.HOLD))
            }
        for told in LeaseState:
            assert can_follow(lease, reported(told)) == (told in within)


def test_what_is_over_stays_so_and_what_has_run_does_not_wait_for_its_first_start_again() -> None:
    lease = leased()
    lease.state = LeaseState.COMPLETED
    assert not can_follow(lease, reported(LeaseState.RUNNING))
    lease.state = LeaseState.RUNNING
    assert not can_follow(lease, reported(LeaseState.WAITING))
    assert can_follow(lease, reported(LeaseState.SUSPENDED))


def test_nor_are_its_counts_taken_back() -> None:
    lease = leased()
    follow(lease, reported(LeaseState.RUNNING, first_start_ms=5, preemptions=3, overhead_vm_ms=9))
    follow(lease, reported(LeaseState.SUSPENDED, first_start_ms=-1, preemptions=1, overhead_vm_ms=0))
    assert (lease.first_start_ms, lease.preemptions, lease.overhead_vm_ms) == (5, 3, 9)
