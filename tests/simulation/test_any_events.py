"""Whatever happens in whatever order: every promise is kept after every instant, and the tables agree."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.simulation.worlds import LogLine, swf, tables

from leasehold.analysis.metrics import reconcile
from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.routing.registry import ROUTING_POLICIES
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict

Plain = dict[str, Any]
SLOTS = {"a": 6, "b": 4}
TIMES = st.integers(0, 400)
TYPES = ({"suspendable": 1}, {"migratable": 1}, {"cancelable": 1}, {"non-preemptable": 1}, None)
DISCIPLINES = ("conservative", "easy", "fcfs", "hybrid:2")
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "guest_policy": st.sampled_from(DISCIPLINES),
        "local_queue": st.just("refuse"),
        "most_preemptions": st.just(1),
        "non_preemptable_max_s": st.just(60),
        "non_preemptable_share": st.sampled_from([0, 0.5, 1]),
        "repair": st.just("replan"),
        "speed_mips": st.sampled_from([2, 3]),
        "value_order": st.booleans(),
        "victims": st.sampled_from([*VICTIM_POLICIES]),
    },
)
ROUTING = {
    "policy": st.sampled_from([*ROUTING_POLICIES]),
    "try_elsewhere": st.booleans(),
    "use_free_room": st.booleans(),
}


@st.composite
def logs(draw: st.DrawFn, widest: int) -> list[LogLine]:
    """Up to a dozen jobs; some need longer than they ask for."""
    lines, now_s = [], 0
    for _ in range(draw(st.integers(0, 12))):
        now_s += draw(st.integers(0, 40))
        asked_s = draw(st.integers(1, 120))
        lines.append((now_s, draw(st.integers(1, 150)), draw(st.integers(1, widest)), asked_s))
    return lines


def terms(most: int, **keys: Any) -> Plain:
    usual: Plain = {"name": "first", "provider": "a", "consumer": "1", "kind": "no-limit", "lending_limit": most}
    return usual | keys


@st.composite
def entries(draw: st.DrawFn) -> Plain:
    """One entry of the timeline, of any kind that needs no agreement."""
    site, job = draw(st.sampled_from([*SLOTS])), draw(st.integers(1, 12))
    stream = draw(st.sampled_from(["own", "guests"]))
    rest: Plain = draw(
        st.sampled_from(
            [
                {"kind": "node-failure", "site": site, "nodes": job % 4 + 1, "lasts_s": 37},
                {"kind": "drain", "site": site},
                {"kind": "drain", "site": site, "lasts_s": 60},
                {"kind": "resume", "site": site},
                {"kind": "unreachable", "site": site, "lasts_s": 45},
                {"kind": "cancel", "stream": stream, "job": job},
                {"kind": "extend", "stream": stream, "job": job, "by_s": 30},
                {"kind": "agree", "agreement": terms(job % 3, penalty=5)},
                {"kind": "agree", "agreement": {**terms(6), "kind": "decay", "share": 0.2, "window_s": 60}},
            ]
        )
    )
    return {"at_s": draw(TIMES), **rest}


@st.composite
def own_clusters(draw: st.DrawFn) -> list[Plain]:
    """Two clusters of the gateway's own."""
    clusters: list[Plain] = []
    for name, slots in SLOTS.items():
        cluster: Plain = {"name": name, "slots": slots, "overhead": {"suspend_ms_per_gib": 3_000, "vms_per_node": 2}}
        cluster["overhead"] |= {"resume_ms_per_gib": 2_000, "network_mbps": 10_000}
        cluster["local_policy"] = draw(st.sampled_from(DISCIPLINES))
        cluster |= draw(TERMS)
        if draw(st.booleans()):
            cluster["failures"] = {"mtbf_s": draw(st.integers(60, 600)), "mttr_s": draw(st.integers(1, 90))}
        if draw(st.booleans()):
            cluster["starts"] = {"mean_s": draw(st.integers(1, 30)), "fail_share": draw(st.sampled_from([0, 0.3]))}
        elif draw(st.booleans()):
            cluster["native_order"] = draw(st.sampled_from(["fifo", "shortest", "widest"]))
        if "failures" not in cluster and "starts" not in cluster and draw(st.booleans()):
            cluster["nodes"] = [{"count": 2, "cores": 2, "software": ["gcc 12"]}, {"count": 1, "cores": 3}]
        clusters.append(cluster)
    return clusters


@st.composite
def jobs_with_needs(draw: st.DrawFn) -> Plain:
    """Jobs for clusters with nodes."""
    kind = draw(st.sampled_from(["suspendable", "cancelable", "migratable", "non-preemptable"]))
    keys: Plain = {"at_s": draw(TIMES), "runs_s": draw(st.integers(1, 150)), "type": kind, "restarts": 1}
    keys |= {"count": draw(st.integers(1, 4)), "every_s": draw(st.integers(0, 40)), "nodes": draw(st.integers(1, 2))}
    keys |= {"software": ["gcc >= 12"]} if draw(st.booleans()) else {}
    return keys | ({"within_s": draw(st.integers(1, 400))} if draw(st.booleans()) else {})


@st.composite
def managed_clusters(draw: st.DrawFn) -> list[Plain]:
    """None, or one that decides for itself, or is behind a peer."""
    if draw(st.booleans()):
        return []
    cluster: Plain = {"name": "c", "slots": 4, "manager_delay_s": draw(st.integers(1, 20))}
    if ask := draw(st.sampled_from(["", "none-can", "none-can-now"])):
        cluster["peer_ask"] = ask
    return [cluster]


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Plain, dict[str, list[LogLine]]]:
    """Two or three clusters in which anything may happen; returns the keys, and the logs by their streams."""
    managed = draw(managed_clusters())
    clusters = [*draw(own_clusters()), *managed]
    users = st.fixed_dictionaries(
        {},
        optional={
            "patience_s": st.integers(1, 90),
            "cancel_share": st.just(0.3),
            "extend_share": st.just(0.5),
            "checkpoint_every_s": st.integers(1, 50),
        },
    )
    own: Plain = {"name": "own", "site": "a", "overrun": "kill", "users": draw(users)}
    guests: Plain = {"name": "guests", "external": True, "overrun": "kill", "users": draw(users)}
    types = draw(st.sampled_from(TYPES))
    guests |= {} if types is None else {"types": types}
    if draw(st.integers(0, 3)) == 0:
        guests["together"] = {"share": 0.5, "claim": draw(st.sampled_from(["incremental", "reservation"]))}
        guests["together"] |= draw(st.fixed_dictionaries({}, optional={"margin_s": st.integers(1, 60)}))
    timeline = draw(st.lists(entries(), max_size=6))
    if managed:
        own["site"] = draw(st.sampled_from(["a", "c"]))
        kinds = ["drain", "resume", "unreachable", "reachable", "forget"]
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=3)):
            timeline.append({"at_s": draw(TIMES), "kind": kind, "site": "c"})
    with_nodes = [cluster["name"] for cluster in clusters if "nodes" in cluster]
    timeline = [one for one in timeline if one["kind"] != "node-failure" or one["site"] not in with_nodes]
    keys: Plain = {
        "name": "any",
        "seed": draw(st.integers(0, 99)),
        "gateway": draw(st.fixed_dictionaries(ROUTING)),
        "reference_mips": draw(st.sampled_from([1, 2])),
        "cluster": clusters,
        "stream": [own, guests],
        "timeline": timeline,
        "horizon_s": 2_000,
        "drain": False,
    }
    if with_nodes:
        keys["job"] = draw(st.lists(jobs_with_needs(), max_size=3))
    if draw(st.booleans()):
        keys["agreement"] = [terms(2, penalty=5)]
        if draw(st.booleans()):
            keys["agreement"].append(terms(4, name="second", provider=draw(st.sampled_from([*SLOTS]))))
        keys["sharing"] = {"threshold": draw(st.sampled_from([0, 10]))}
        timeline.append({"at_s": draw(TIMES), "kind": "lift-penalty", "agreement": "first", "consumer": "1"})
        timeline.append({"at_s": 401, "kind": "revoke", "agreement": "first"})
    return keys, {"own": draw(logs(4)), "guests": draw(logs(SLOTS["a"]))}


@given(scenarios())
@settings(max_examples=examples(150), deadline=None)
def test_whatever_happens_every_promise_is_kept_and_the_tables_agree(
    drawn: tuple[Plain, dict[str, list[LogLine]]],
) -> None:
    keys, lines = drawn
    with TemporaryDirectory() as folder:
        for stream in keys["stream"]:
            path = Path(folder) / f"{stream['name']}.swf"
            path.write_text(swf(lines[stream["name"]] or [(0, 1, 1, 1)]))
            stream["log"] = str(path)
        run = run_scenario(scenario_from_dict(keys), Path(folder) / "run", check=True)
        assert run.manifest["status"] == "complete"
        assert validate(load(run.path)) == []
        assert reconcile(load(run.path)) == []
        assert tables(run)["leases"].height == run.manifest["jobs"]["read"]
