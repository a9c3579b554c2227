"""Whatever a scenario file says that cannot be meant is one line with file, line, key and expectation."""

import copy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.errors import InputError, LeaseholdError, UnknownName
from leasehold.simulation.scenario.parse import load_scenario, scenario_from_dict
from leasehold.simulation.scenario.spec import Scenario

Write = Callable[[str], Path]

CASES = [
    # a wrong value: what is replaced, by what, line, what the message says
    ("slots = 8", "slots = 0", 9, "cluster[0].slots: got 0, expected a whole number from 1 to 1000000"),
    ("slots = 8", "slots = -3", 9, "got -3"),
    ("slots = 8", "slots = 8.5", 9, "got 8.5"),
    ("slots = 8", "slots = true", 9, "got True"),
    ("slots = 8", "slots = nan", 9, "got nan"),
    ("slots = 8", 'slots = "peek"', 9, "did you mean 'peak'?"),
    ("slots = 8", "slotz = 8", 9, "cluster[0].slotz: got 'slotz', expected one of slots"),
    ("slots = 8", "", 7, "cluster[0].slots: missing"),
    ("slots = 8", "slots = 8\nspeed_mips = 0", 10, "cluster[0].speed_mips"),
    ("slots = 8", "slots = 8\nnon_preemptable_share = 1.5", 10, "expected a number from 0 to 1"),
    ("slots = 8", "slots = 8\nnon_preemptable_share = nan", 10, "got nan"),
    ("slots = 8", "slots = 8\noverhead.network_mbps = 0", 10, "cluster[0].overhead.network_mbps: got 0"),
    ("slots = 8", 'slots = 8\noverhead.storage = "shard"', 10, "did you mean 'shared'?"),
    ("slots = 8", "slots = 8\noverhead.netwrk_mbps = 10", 10, "did you mean 'network_mbps'?"),
    ("slots = 8", "slots = 8\noverhead = 3", 10, "cluster[0].overhead: got 3, expected a table"),
    ('name = "small"', "", None, "name: missing"),
    ('name = "small"', 'name = ""', 1, "name: got ''"),
    ('name = "small"', "name = 3", 1, "name: got 3"),
    ('name = "small"', 'name = "small"\nseed = -1', 2, "seed: got -1"),
    ('name = "small"', 'name = "small"\ndrain = 1', 2, "drain: got 1, expected true or false"),
    ('name = "small"', 'name = "small"\nhorison_s = 1', 2, "did you mean 'horizon_s'?"),
    ("horizon_s = 3_600", "horizon_s = 0", 2, "horizon_s: got 0"),
    ("horizon_s = 3_600", "horizon_s = inf", 2, "horizon_s: got inf"),
    ("horizon_s = 3_600", "", None, "the DAS-2 model never ends"),
    # names with a typo
    ('policy = "rr"', 'policy = "pap-rtpd"', 5, "did you mean 'pap-rtdp'?"),
    ('policy = "rr"', 'policy = "selective:prize=1"', 5, "gateway.policy: got 'prize', expected one of"),
    ('policy = "rr"', 'policy = "selective:price=0"', 5, "gateway.policy: got 'price=0', expected price=NUMBER"),
    ('policy = "rr"', 'policy = "rr:price=1"', 5, "gateway.policy: got 'price=1', expected none"),
    ("slots = 8", 'slots = 8\nvictims = "mom"', 10, "did you mean 'moml'?"),
    ("slots = 8", 'slots = 8\nlocal_policy = "eazy"', 10, "did you mean 'easy'?"),
    ("slots = 8", 'slots = 8\nguest_policy = "hybrid:0"', 10, "hybrid:N"),
    ("slots = 8", 'slots = 8\nlocal_queue = "refused"', 10, "did you mean 'refuse'?"),
    ("slots = 8", 'slots = 8\nrepair = "all"', 10, "cluster[0].repair"),
    ("slots = 8", "slots = 8\nslotz = 8", 10, "cluster[0].slotz"),
    ('site = "a"', 'site = "b"', 14, "stream[0].site: got 'b', expected one of a"),
    # streams that nobody can understand
    ('site = "a"', "", 11, "exactly one of"),
    ('site = "a"', 'site = "a"\nexternal = true', 14, "got 'site and external'"),
    ('site = "a"', 'cluster_by = "partiton"', 14, "did you mean 'partition'?"),
    ('site = "a"', 'site = "a"\nexternal = 3', 15, "stream[0].external: got 3"),
    ('site = "a"', 'site = "a"\nexternal = {}', 15, "stream[0].external"),
    ('site = "a"', 'site = "a"\nexternal = { grup = [1] }', 15, "did you mean 'group'?"),
    ('site = "a"', 'site = "a"\nexternal = { group = 1 }', 15, "a list of values"),
    ('site = "a"', 'site = "a"\nload = 0', 15, "stream[0].load: got 0"),
    ('site = "a"', 'site = "a"\nbegin_s = 10\nend_s = 10', 16, "a time after begin_s"),
    ('site = "a"', 'site = "a"\nshift_s = -1', 15, "stream[0].shift_s: got -1"),
    ('site = "a"', 'site = "a"\ntypes = { suspendable = 1 }', 15, "stream[0].types"),
    ('log = "own.swf"', "", 11, 'either log = "file" or model = "das2"'),
    ('log = "own.swf"', 'log = "own.swf"\nmodel = "das2"', 13, "got 'log and model'"),
    ('log = "own.swf"', 'log = "own.swf"\nformat = ""', 14, "format: got '', expected one of gwf, parquet, swf"),
    ('log = "own.swf"', 'log = "own.txt"', 11, "the name own.txt does not say"),
    ('model = "das2"', 'model = "das3"', 18, "did you mean 'das2'?"),
    ('model = "das2"', 'model = "das2"\ntypes = { cancelable = 0.5 }', 19, "types: got 0.5, expected 1"),
    ('model = "das2"', 'model = "das2"\ntypes = { cancelabel = 1.0 }', 19, "did you mean 'cancelable'?"),
    ('model = "das2"', 'model = "das2"\nslack = [3, 1]', 19, "stream[1].slack"),
    ('model = "das2"', 'model = "das2"\nslack = [3]', 19, "two numbers"),
    ("m = 1.5", "m = 2.9", 20, "stream[1].m: got 2.9"),
    ("m = 1.5", "", 16, "stream[1].m: missing"),
    ("alpha = 60.0", "alpha = 0", 27, "stream[1].alpha"),
    # co-allocations
    ('model = "das2"', 'model = "das2"\ntogether = {}', 19, "stream[1].together.share: missing"),
    ('model = "das2"', 'model = "das2"\ntogether = true', 19, "together: got True"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1.5 }', 19, "together.share: got 1.5"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, shar = 1 }', 19, "stream[1].together.shar"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, components = 1 }', 19, "components: got 1"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, components = 17 }', 19, "from 2 to 16"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, claim = "reserve" }', 19, "'reservation'?"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, place = "worstfit" }', 19, "'worst-fit'?"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, claim_part = 1 }', 19, "less than 1"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, margin_s = -1 }', 19, "margin_s: got -1"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, tries = 101 }', 19, "from 1 to 100"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, files = { b = 9 } }', 19, "together.files.b"),
    ('model = "das2"', 'model = "das2"\ntogether = { share = 1, files = { a = 0 } }', 19, "files.a: got 0"),
    ('model = "das2"', 'model = "das2"\ndomain = "a"\ntogether = { share = 1 }', 19, "are not bound"),
    ('site = "a"', 'site = "a"\ntogether = { share = 1 }', 15, "only requests from outside"),
    # tables of the wrong kind
    ("[[cluster]]", "[cluster]", 7, "cluster: got"),
    ('name = "own"', 'name = "guests"', 17, "a name that no other stream has"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), CASES, ids=[new or old for old, new, _, _ in CASES])
def test_one_line_says_where_and_what(
    written: Write, small_toml: str, old: str, new: str, line: int | None, message: str
) -> None:
    assert old in small_toml
    path = written(small_toml.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert message in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(str(path) if line is None else f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


class TestFiles:
    def test_that_are_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot be read: No such file"):
            load_scenario(tmp_path / "none.toml")

    def test_that_are_folders(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot be read: Is a directory"):
            load_scenario(tmp_path)

    def test_that_are_no_toml(self, written: Write) -> None:
        with pytest.raises(InputError, match=r"scenario\.toml:2: is not valid TOML: Expected"):
            load_scenario(written('name = "x"\nslots 8\n'))

    def test_that_end_too_early(self, written: Write) -> None:
        with pytest.raises(InputError, match="is not valid TOML"):
            load_scenario(written('name = "x'))

    def test_that_are_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "binary.toml"
        path.write_bytes(b'name = "\xff\xfe"')
        with pytest.raises(InputError, match="not text in UTF-8"):
            load_scenario(path)

    def test_that_are_empty(self, written: Write) -> None:
        with pytest.raises(InputError, match="expected"):
            load_scenario(written(""))

    def test_without_streams_or_clusters(self, written: Write) -> None:
        with pytest.raises(InputError, match=r"at least one \[\[stream\]\]"):
            load_scenario(written('name = "x"\n[[cluster]]\nname = "a"\nslots = 1\n'))
        with pytest.raises(InputError, match=r"at least one \[\[cluster\]\]"):
            load_scenario(written('name = "x"\n[[stream]]\nname = "g"\nlog = "a.swf"\nexternal = true\n'))


def test_keys_from_elsewhere_than_a_file_have_no_line() -> None:
    with pytest.raises(UnknownName, match="did you mean 'seed'"):
        scenario_from_dict({"name": "x", "sed": 1, "cluster": [{"name": "a", "slots": 1}], "stream": [
            {"name": "s", "log": "a.swf", "site": "a"}]})  # fmt: skip


# --- any value in any place ---------------------------------------------------------------------------------

VALID = """\
name = "any"
title = "t"
seed = 3
horizon_s = 60
drain = true
reference_mips = 2
[gateway]
policy = "rr"
moments = "learnt"
try_elsewhere = false
tick_s = 1
[defaults]
victims = "mov"
[[cluster]]
name = "a"
slots = 4
speed_mips = 3
local_policy = "easy"
guest_policy = "hybrid:2"
victims = "moml"
value_order = true
local_queue = "queue"
non_preemptable_share = 0.5
non_preemptable_max_s = 60
repair = "replan"
overhead = { storage = "local", suspend_ms_per_gib = 3, network_mbps = 10, vms_per_node = 2 }
resources = { memory_mib = 4096, "licence:matlab" = 2 }
[[cluster.nodes]]
count = 2
cores = 2
memory_mib = 2048
disk_mib = 100
cpu_mhz = 2000
software = ["gcc 12.2", "avx2"]
[[job]]
at_s = 1
runs_s = 5
estimate_s = 6
count = 2
every_s = 10
nodes = 2
cores = 2
memory_mib = 512
disk_mib = 10
cpu_mhz = 1000
software = ["gcc >= 12"]
within_s = 600
type = "cancelable"
restarts = 1
consumer = "vo"
[sharing]
without_agreement = "allow"
threshold = 5
top_n = 2
broker_policy = "most-room"
starts_at = "2026-09-01T00:00:00Z"
[[domain]]
name = "das"
sites = ["a"]
[[agreement]]
name = "whole"
provider = "das"
consumer = "vo"
kind = "udecay"
share = 0.5
window_s = 600
windows = 2
steps = [[1, 1], [0.5, 0.5]]
normalise = true
resource = "cpus"
begin_s = 1
end = "2026-09-02T00:00:00Z"
[[agreement]]
name = "part"
provider = "a"
consumer = "vo/group"
kind = "commitment"
epoch_share = 0.3
epoch_s = 1200
burst_share = 0.5
burst_s = 300
parent = "whole"
relative = true
priority = 1
penalty = 3
penalty_lasts_s = 60
lending_limit = 3
longest_s = 900
hours = "08:00-20:00"
zone = "Europe/Amsterdam"
reserved_share = 0.5
reserved_longest_s = 3600
[[agreement]]
name = "fading"
provider = "*"
consumer = "*"
kind = "decay"
share = 0.5
window_s = 300
factors = [1, 0.5]
[[stream]]
name = "log"
log = "a.swf"
format = "swf"
site = "a"
external = { group = [1] }
types = { suspendable = 1.0 }
slack = [1, 2]
size = "requested"
overrun = "raise"
memory_mib = 1
consumer_by = "{group}/{user}"
load = 2.0
together = { share = 0.5, components = 3, claim = "reservation", place = "close-to-files", tries = 2 }
begin_s = 0
end_s = 3
shift_s = 1
from_zero = true
[[stream]]
name = "by"
log = "b.gwf"
cluster_by = "queue"
slots = 3
[[stream]]
name = "wide"
log = "c.swf"
external = true
together = { share = 1, claim_part = 0.5, margin_s = 60, files = { a = 2048 } }
[[stream]]
name = "model"
model = "das2"
l = 0.5
m = 1.5
h = 3
q = 0.9
p_one = 0.2
p_pow2 = 0.5
a = 4.6
b = 1.7
alpha = 60.0
beta = 0.5
longest_s = 1000
consumer = "vo/group"
domain = "das"
claims = { "licence:matlab" = 1 }
"""

Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> list[Place]:
    """List every place of a nested value, tables and lists included."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [at, *(place for key, below in inside for place in places(below, (*at, key)))]


def replaced(values: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    changed: dict[str, Any] = copy.deepcopy(values)
    table: Any = changed
    for step in place[:-1]:
        table = table[step]
    table[place[-1]] = value
    return changed


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 5)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["rr", "a", "peak", "das2", "no.py:x", "hybrid:99", "../a.swf.gz", "\x00", "a\nb"])
    | st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
    max_leaves=5,
)
TREE = tomllib.loads(VALID)


def test_the_starting_point_is_valid() -> None:
    assert isinstance(scenario_from_dict(TREE), Scenario)


@given(place=st.sampled_from(places(TREE)[1:]), value=VALUES)
def test_any_value_in_any_place_gives_a_scenario_or_one_line(place: Place, value: object) -> None:
    try:
        scenario = scenario_from_dict(replaced(TREE, place, value))
    except LeaseholdError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - what is raised is one of two good answers
    else:
        assert scenario_from_dict(scenario.to_dict()) == scenario


@given(text=st.text(max_size=60) | st.binary(max_size=60))
def test_any_file_gives_a_scenario_or_one_line(text: str | bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any", numbered=True) / "any.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(LeaseholdError) as caught:
        load_scenario(path)
    assert len(str(caught.value).splitlines()) == 1


@given(lines=st.permutations(VALID.splitlines()), cut=st.integers(0, len(VALID.splitlines())))
def test_a_file_torn_apart_gives_a_scenario_or_one_line(
    lines: list[str], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn", numbered=True) / "torn.toml"
    path.write_text("\n".join(lines[:cut]), encoding="utf-8")
    try:
        load_scenario(path)
    except LeaseholdError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 - what is raised is one of two good answers
