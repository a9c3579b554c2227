"""Agreements as a file says them, each under its own ``[[agreement]]``, read and written with every key.

The same keys travel as JSON (`agreement_from_dict`, `agreement_to_dict`); their schema is `agreement_schema`.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from leasehold.configuration.declaration import Plain, differing, seconds
from leasehold.configuration.keys import Keys
from leasehold.configuration.limits import limit_to_dict, read_limit
from leasehold.configuration.rules import read_rules, rules_to_dict
from leasehold.configuration.tables import check_resource
from leasehold.configuration.times import UNIX_TIME, Clock
from leasehold.model.agreement import CPUS, EVERYBODY, HARD, Agreement
from leasehold.model.errors import InvalidField
from leasehold.sharing.paths import is_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_A_NAME = "letters, digits, '.', '_' and '-', at most 100 of them, a letter or digit first"
_A_CONSUMER = "a path such as atlas/production, * for everybody, or @ and a virtual domain, as in @das3"
_LONGEST_CONSUMER = 1_000
_AS_USUAL = {"resource": CPUS, "priority": 0, "penalty": HARD, "parent": "", "relative": False}


def read_agreements(keys: Keys, clock: Clock) -> tuple[Agreement, ...]:
    """Take every ``[[agreement]]``; raises InvalidField or UnknownName with the place of the key as field."""
    found: dict[str, Agreement] = {}
    for table in keys.tables("agreement"):
        agreement = read_agreement(table, clock)
        if agreement.name in found:
            raise InvalidField(table.where("name"), agreement.name, "a name that no other agreement has")
        found[agreement.name] = agreement
    return tuple(found.values())


def agreement_from_dict(values: Mapping[str, Any], clock: Clock = UNIX_TIME) -> Agreement:
    """Check the keys of one agreement; raises InvalidField or UnknownName with the key as field."""
    for key, value in values.items():
        if value is None:  # JSON can say so, TOML cannot
            raise InvalidField(key, value, "a value; what is as usual is left out")
    return read_agreement(Keys(values), clock)


def read_agreement(keys: Keys, clock: Clock) -> Agreement:
    """Check the keys of one agreement and refuse whatever else is there.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    end_key = "end" if "end" in keys else "end_s"
    agreement = Agreement(
        name=_name(keys),
        provider=keys.text("provider"),
        consumer=_consumer(keys),
        limit=read_limit(keys),
        resource=_resource(keys),
        lending_limit=keys.whole("lending_limit", None, least=0),
        rules=read_rules(keys),
        begin_ms=clock.moment(keys, "begin"),
        end_ms=clock.moment(keys, "end"),
        priority=keys.whole("priority", 0, least=0),
        penalty=keys.whole("penalty", HARD, least=0),
        penalty_ms=keys.milliseconds("penalty_lasts_s", None, least_ms=1),
        parent=keys.text("parent", ""),
        relative=keys.flag("relative", default=False),
    )
    if _ends_before_it_begins(agreement):
        [end] = clock.to_dict("end", agreement.end_ms).values()
        raise InvalidField(keys.where(end_key), end, "a time after its begin")
    _check_parent(keys, agreement)
    keys.done()
    return agreement


def _name(keys: Keys) -> str:
    name = keys.text("name")
    if not _NAME.fullmatch(name):
        raise InvalidField(keys.where("name"), name, _A_NAME)
    return name


def _consumer(keys: Keys) -> str:
    consumer = keys.text("consumer")
    is_known = consumer == EVERYBODY or is_path(consumer.removeprefix("@"))
    if not is_known or len(consumer) > _LONGEST_CONSUMER:
        raise InvalidField(keys.where("consumer"), consumer, _A_CONSUMER)
    return consumer


def _resource(keys: Keys) -> str:
    resource = keys.text("resource", CPUS)
    check_resource(keys.where("resource"), resource)
    return resource


def _ends_before_it_begins(agreement: Agreement) -> bool:
    begin_ms, end_ms = agreement.begin_ms, agreement.end_ms
    return begin_ms is not None and end_ms is not None and end_ms <= begin_ms


def _check_parent(keys: Keys, agreement: Agreement) -> None:
    if agreement.parent == agreement.name:
        raise InvalidField(keys.where("parent"), agreement.parent, "another agreement")
    if agreement.relative and not agreement.parent:
        raise InvalidField(keys.where("relative"), True, "parent beside it: shares of what that one has")  # noqa: FBT003
    if agreement.parent and agreement.consumer == EVERYBODY:
        raise InvalidField(keys.where("consumer"), EVERYBODY, "somebody beneath the consumer of the parent")


def agreement_to_dict(agreement: Agreement, clock: Clock = UNIX_TIME) -> Plain:
    """Give the keys of an agreement, without what is as usual: `read_agreement` reads the same one."""
    told: Plain = {
        "name": agreement.name,
        "provider": agreement.provider,
        "consumer": agreement.consumer,
        "resource": agreement.resource,
    }
    told |= limit_to_dict(agreement.limit)
    if agreement.lending_limit is not None:
        told["lending_limit"] = agreement.lending_limit
    told |= rules_to_dict(agreement.rules)
    told |= clock.to_dict("begin", agreement.begin_ms) | clock.to_dict("end", agreement.end_ms)
    told |= {"priority": agreement.priority, "penalty": agreement.penalty}
    told |= seconds("penalty_lasts_s", agreement.penalty_ms)
    told |= {"parent": agreement.parent, "relative": agreement.relative}
    return differing(told, _AS_USUAL)


@cache
def _schema_text() -> str:
    return (files("leasehold.configuration") / "agreement.schema.json").read_text(encoding="utf-8")


def agreement_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of a document; ``$defs.agreement`` is that of one agreement."""
    schema: dict[str, Any] = json.loads(_schema_text())
    return schema
