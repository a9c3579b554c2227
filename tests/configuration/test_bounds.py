"""Nothing that a file or a body says is without bounds: every key of every document, found by reading it.

The keys are not listed here. Each reader is watched while it reads one good document; every key that it asks
for, whether the document has it or not, is then given what no key may have. So a new key without bounds
fails.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from leasehold.configuration.agreements import MOST_WINDOWS, agreement_from_dict, read_document
from leasehold.configuration.job_description.description import Looking, read_fields
from leasehold.configuration.keys import Keys
from leasehold.model.agreement import CPUS, TimeDecay, UsageDecay
from leasehold.model.errors import InvalidField
from leasehold.model.use import Holding
from leasehold.protocol.base import RequestModel
from leasehold.service.api import app as every_route
from leasehold.service.config_file import config_from_dict
from leasehold.service.drivers.ec2.options import read_options as read_ec2
from leasehold.service.drivers.emulated.options import read_options as read_emulated
from leasehold.service.drivers.libvirt.options import read_options as read_libvirt
from leasehold.service.drivers.opennebula.options import read_options as read_opennebula
from leasehold.service.drivers.qemu.options import read_options as read_qemu
from leasehold.service.drivers.slurm.options import read_options as read_slurm
from leasehold.sharing.ledger import Account, AccountKey, UsageLedger, WatchedAccounts
from leasehold.sharing.limits import AccountUsage, over
from leasehold.sharing.parties import Provider, Providers
from leasehold.simulation.scenario.parse import scenario_from_dict

BETWEEN = {"name": "a", "provider": "das3", "consumer": "atlas"}
AGREEMENTS: dict[str, dict[str, Any]] = {
    "no-limit": BETWEEN | {"kind": "no-limit"},
    "commitment": BETWEEN
    | {"kind": "commitment", "epoch_share": 0.3, "epoch_s": 1200, "burst_share": 0.6, "burst_s": 300},
    "decay": BETWEEN | {"kind": "decay", "share": 0.3, "window_s": 300, "factors": [1, 0.5]},
    "udecay": BETWEEN | {"kind": "udecay", "share": 0.3, "window_s": 300, "windows": 4, "steps": [[0.5, 1]]},
}
SERVICE: dict[str, Any] = {
    "cluster": [{"name": "a", "slots": 4, "emulated": {"nodes": [{"name": "n", "cores": 2}]}}],
    "domain": [{"name": "das", "sites": ["a"]}],
    "issuer": [
        {
            "url": "https://wlcg.example",
            "audience": ["x"],
            "profile": "wlcg",
            "grants": {"/cms": {"roles": ["member"]}},
            "scopes": {"compute.read": ["lease.see"]},
        }
    ],
    "jobs": {"ways": [{"from": "a", "to": "b"}]},
}
DAS2 = {
    "l": 0.8, "m": 2.5, "h": 6, "q": 0.9, "p_one": 0.3, "p_pow2": 0.6, "a": 5.0, "b": 1.7, "alpha": 7.6,
    "beta": 0.43, "longest_s": 5000,
}  # fmt: skip
SCENARIO: dict[str, Any] = {
    "name": "x",
    "horizon_s": 60,
    "cluster": [{"name": "a", "slots": 4}, {"name": "b", "slots": 4}],
    "stream": [
        {"name": "a", "site": "a", "model": "das2", **DAS2},
        {"name": "guests", "model": "das2", "together": {"share": 0.5, "files": {"a": 5}}, **DAS2},
        {"name": "log", "site": "a", "external": {"group": [2]}, "log": "x.swf"},
        {"name": "grid", "cluster_by": "group", "log": "x.gwf"},
    ],
}
JOB = {
    "Executable": "true",
    "ExecutionTime": 60,
    "DataStaging": [{"FileName": "f", "Size": 5}],
}
LOOKING = Looking(moment_ms=lambda _field, _text: 10**12, size_of=lambda _field, _path: 1)

READERS: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = {
    **{f"agreement {kind}": (agreement_from_dict, values) for kind, values in AGREEMENTS.items()},
    "document": (
        lambda values: read_document(Keys(values)),
        {"agreement": [AGREEMENTS["decay"]], "domain": SERVICE["domain"], "sharing": {}},
    ),
    "service": (config_from_dict, SERVICE),
    "emulated": (read_emulated, {"nodes": [{"name": "n"}]}),
    "qemu": (read_qemu, {}),
    "slurm": (read_slurm, {"partition": "p", "user": "nobody"}),
    "libvirt": (read_libvirt, {}),
    "ec2": (read_ec2, {"region": "eu", "image": "ami-1", "instance_type": "t3.small"}),
    "opennebula": (read_opennebula, {"endpoint": "http://one:2633/RPC2", "template": 0}),
    "scenario": (scenario_from_dict, SCENARIO),
    "job": (lambda values: read_fields(values, LOOKING), JOB),
}

WRONG: dict[str, object] = {
    "9e15": 9e15,
    "9*10^15": 9 * 10**15,
    "10^30": 10**30,
    "10^5000": 10**5000,
    "-1": -1,
    "-10^30": -(10**30),
    "NaN": float("nan"),
    "infinity": float("inf"),
    "many numbers": [0.5] * 10_001,
    "many texts": ["a"] * 10_001,
    "many tables": [{}] * 10_001,
    "a long text": "a" * 10_001,
    "control characters": "a\nb\0",
}

FREE: dict[tuple[str, str, str], set[str]] = {
    ("emulated", "", "seed"): {"9*10^15"},
    ("scenario", "", "seed"): {"9*10^15"},
    ("scenario", "stream[0]", "a"): {"-1"},  # a parameter of the DAS-2 model, which may be negative
    ("scenario", "stream[1]", "a"): {"-1"},
    ("job", "", "Description"): {"control characters"},  # said to people, on several lines
    ("job", "", "JobAnnotation"): {"control characters"},
}
"""Which of these values some keys may have."""


def asked_for(read: Callable[[dict[str, Any]], object], values: dict[str, Any]) -> list[tuple[str, str]]:
    """Every key that a reader takes, with the place of its table."""
    found: dict[tuple[str, str], None] = {}
    take = Keys.take

    def watched(keys: Keys, key: str, *rest: Any, **more: Any) -> Any:
        found[keys.place, key] = None
        return take(keys, key, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keys, "take", watched)
        read(deepcopy(values))
    return list(found)


def placed(values: dict[str, Any], place: str, key: str, value: object) -> dict[str, Any]:
    """The document with this value at this key, its tables made where they are missing."""
    changed = deepcopy(values)
    table: Any = changed
    for step in re.findall(r"/?[^.\[\]]+|\[\d+\]", place):
        table = table[int(step[1:-1])] if step.startswith("[") else table.setdefault(step, {})
    table[key] = value
    return changed


def is_rooted(values: dict[str, Any], place: str) -> bool:
    """Whether the table is named from the top of the document; that of a driver is read for itself."""
    return not place or re.split(r"[.\[]", place)[0] in values


_LARGE = ("service", "scenario")
"""Documents with hundreds of keys, each of which is given everything that is wrong."""


@pytest.mark.parametrize(
    "reader", [pytest.param(one, marks=pytest.mark.soak if one in _LARGE else ()) for one in READERS]
)
def test_every_key_of_every_document_is_bounded(reader: str) -> None:
    read, values = READERS[reader]
    keys = [(place, key) for place, key in asked_for(read, values) if is_rooted(values, place)]
    assert keys
    for place, key in keys:
        taken = set()
        for name, value in WRONG.items():
            try:
                read(placed(values, place, key, value))
            except InvalidField as error:
                message = str(error)
                assert len(message.splitlines()) == 1, (place, key, name)
                assert len(message) < 3_000, (place, key, name)
            else:
                taken.add(name)
        assert taken == FREE.get((reader, place, key), set()), (place, key)


# --- bodies -----------------------------------------------------------------------------------------------


def bodies() -> list[type[RequestModel]]:
    """Every model of a body or a query, that of a part of one too."""
    assert every_route.ROUTERS
    found: dict[type[RequestModel], None] = {}
    waiting = [RequestModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            found[model] = None
            waiting.append(model)
    return list(found)


SIDES = {
    "integer": ("inimum", "aximum"),
    "number": ("inimum", "aximum"),
    "string": ("maxLength",),
    "array": ("maxItems",),
}
"""What the schema of a value has to say, beside what fixes it altogether."""
FIXED = {"enum", "const", "format", "pattern"}


def unbounded(schema: Any, place: str) -> Iterator[str]:
    """The places of a JSON schema at which something has no bounds."""
    if isinstance(schema, list):
        for part in schema:
            yield from unbounded(part, place)
    if not isinstance(schema, dict):
        return
    for word in SIDES.get(str(schema.get("type")), ()):
        if not FIXED & schema.keys() and not any(word in key for key in schema):
            yield f"{place}: {schema.get('type')} without {word}"
    if schema.get("type") == "object" and schema.get("additionalProperties") not in (None, False):
        if "maxProperties" not in schema:
            yield f"{place}: object without maxProperties"
        yield from unbounded(schema["additionalProperties"], f"{place}.*")
    for key in ("anyOf", "allOf", "oneOf", "items", "prefixItems"):
        yield from unbounded(schema.get(key), place)
    for name, part in (schema.get("properties", {}) | schema.get("$defs", {})).items():
        yield from unbounded(part, f"{place}.{name}")


@pytest.mark.parametrize("model", bodies(), ids=lambda model: model.__name__)
def test_every_field_of_every_body_is_bounded(model: type[RequestModel]) -> None:
    schema = model.model_json_schema()
    assert list(unbounded(schema, model.__name__)) == []


@pytest.mark.parametrize("model", bodies(), ids=lambda model: model.__name__)
def test_no_body_takes_a_number_beyond_its_bounds(model: type[RequestModel]) -> None:
    for name in model.model_fields:
        part = TypeAdapter(model).json_schema()["properties"][name]
        kinds = {one.get("type") for one in [part, *part.get("anyOf", [])]}
        if not kinds & {"integer", "number"}:
            continue
        for wrong in (9e19, 10**30, -(10**30), float("nan"), float("inf")):
            with pytest.raises(ValidationError) as caught:
                model.model_validate({name: wrong})
            assert any(error["loc"][:1] == (name,) for error in caught.value.errors())


# --- what the bounds are for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit",
    [
        TimeDecay(1, 1_000, (1_000_000,) * MOST_WINDOWS),
        UsageDecay(1, 1_000, MOST_WINDOWS - 1, ((0, 1_000_000),)),
    ],
)
def test_the_widest_limit_looks_at_each_window_once(limit: TimeDecay | UsageDecay) -> None:
    looked: Counter[tuple[int, int]] = Counter()

    class Watched(UsageLedger):
        def used(self, key: AccountKey, from_ms: int, to_ms: int) -> int:
            looked[from_ms, to_ms] += key[0] == "atlas"
            return super().used(key, from_ms, to_ms)

    ledger = Watched(Providers([Provider("das3", {CPUS: 10})]))
    key = ("atlas", "das3", CPUS)
    ledger.watch(WatchedAccounts(frozenset({key, ("", "das3", CPUS)}), 1 << 40), 0)
    ledger.begin(1, Holding("atlas", "das3", {CPUS: 10}), 0)
    found = over(limit, AccountUsage(ledger, key), 10**9)
    assert found is not None
    assert found.next_ms is None
    assert sum(looked.values()) <= 4 * MOST_WINDOWS


def test_a_fine_grid_never_thickens_an_account() -> None:
    account = Account()
    for number in range(5_000):
        account.change(1 if number % 2 == 0 else -1, number * 3_600_000)
    before = account.used(10**9, 5_000 * 3_600_000)
    account.thin(0, 1)
    assert account.used(10**9, 5_000 * 3_600_000) == before
    assert not account.is_long
