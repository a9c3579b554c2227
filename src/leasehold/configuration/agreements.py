"""Agreements in files: ``[[agreement]]``, with the ``[[domain]]`` and ``[sharing]`` that they speak of.

The same keys travel as JSON (`agreement_from_dict`, `agreement_to_dict`); their schema is `agreement_schema`.
A share is a number from 0 to 1 of what the provider has, as every share in Leasehold's files: ``0.3`` is 30%.
It is kept to the millionth.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from leasehold.configuration.declaration import Flag, Key, Plain, Seconds, Table, Text, Whole, Within, differing
from leasehold.configuration.keys import NOTHING, Keys
from leasehold.configuration.tables import (
    DOMAIN,
    SHARING,
    DomainSpec,
    SharingSpec,
    check_resource,
    read_domains,
)
from leasehold.configuration.times import UNIX_TIME, Clock
from leasehold.configuration.toml import read_toml
from leasehold.model.agreement import (
    EVERYBODY,
    MILLION,
    Agreement,
    Commitment,
    DailyHours,
    Limit,
    NoLimit,
    Rules,
    TimeDecay,
    UsageDecay,
)
from leasehold.model.errors import InvalidField
from leasehold.sharing.limits import reach_ms
from leasehold.sharing.parties import is_path

MOST_WINDOWS = 366
"""The most windows that a limit looks at: a year of days. Each is summed up for each window to come."""

LEAST_WINDOW_MS = 1_000
MOST_REACH_MS = 10 * 366 * 86_400_000
"""The longest window, and all windows of a limit together: ten years."""

_MOST_STEPS = 100
_A_PAIR = 2
_STEPS = f"1 to {_MOST_STEPS} pairs of a utilisation and its factor, each from 0 to 1, as in [[0.5, 0.5], [0.2, 0.2]]"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_A_NAME = "letters, digits, '.', '_' and '-', at most 100 of them, a letter or digit first"
_A_CONSUMER = "a path such as atlas/production, * for all consumers, or @ and a virtual domain, as in @das3"
_LONGEST_CONSUMER = 1_000
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)")
_DAY_MIN = 24 * 60


def ppm(share: float) -> int:
    """Give a number from 0 to 1 in whole parts per million."""
    return round(share * MILLION)


def share_of(share_ppm: int) -> float:
    """Give ppm as a number from 0 to 1, whole where it is one."""
    return share_ppm // MILLION if share_ppm % MILLION == 0 else share_ppm / MILLION


class AgreedShare(Key):
    """A share: ppm at a field ``..._ppm``, a number from 0 to 1 in a file under ``..._share``."""

    accepts = "number from 0 to 1"

    def name_of(self, field_name: str) -> str:
        """Give the name of the field with its other unit."""
        name = field_name.removesuffix("_ppm")
        return name if name == "share" else f"{name}_share"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take a share, and give ppm."""
        if name not in keys and default is not NOTHING:
            return keys.take(name, default)
        return ppm(keys.number(name, least=0, most=1))

    def write(self, value: int) -> float:
        """Give the share."""
        return share_of(value)


class Factors(Key):
    """Shares, the weight of the present window first."""

    accepts = "list of numbers from 0 to 1"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the list, and give ppm."""
        value = keys.take(name, None)
        if value is None:
            return default
        if not _is_list(value, MOST_WINDOWS) or not all(map(_is_share, value)):
            expected = f"1 to {MOST_WINDOWS} numbers from 0 to 1, as in [1, 0.5, 0.2, 0.1]"
            raise InvalidField(keys.where(name), value, expected)
        return tuple(map(ppm, value))

    def write(self, value: tuple[int, ...]) -> list[float]:
        """Give the shares."""
        return list(map(share_of, value))


class Steps(Key):
    """Pairs of shares, in any order; they are kept with the highest utilisation first."""

    accepts = "list of pairs of numbers from 0 to 1"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the list, and give ppm."""
        value = keys.take(name, None)
        if value is None:
            return default
        if not _is_list(value, _MOST_STEPS) or not all(map(_is_step, value)):
            raise InvalidField(keys.where(name), value, _STEPS)
        steps = sorted(((ppm(at), ppm(factor)) for at, factor in value), reverse=True)
        if len({at for at, _ in steps}) < len(steps):
            raise InvalidField(keys.where(name), value, "each utilisation once")
        return tuple(steps)

    def write(self, value: tuple[tuple[int, int], ...]) -> list[list[float]]:
        """Give the pairs."""
        return [[share_of(at), share_of(factor)] for at, factor in value]


def _is_list(value: object, most: int) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= most


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_step(value: object) -> bool:
    return isinstance(value, list) and len(value) == _A_PAIR and all(map(_is_share, value))


def _window(doc: str) -> Seconds:
    return Seconds(doc, least_ms=LEAST_WINDOW_MS, most_ms=MOST_REACH_MS)


_DECAYING: dict[str, Key] = {
    "share_ppm": AgreedShare("upper bound of the weighted sum of use in the present and past windows"),
    "window_ms": _window("length of a window"),
}
_NORMALISED: dict[str, Key] = {
    "normalise": Flag("divide by the sum of the weights, so that constant use counts at its own value")
}
LIMITS: dict[str, Table[Any]] = {
    "no-limit": Table(NoLimit),
    "commitment": Table(
        Commitment,
        keys={
            "epoch_ppm": AgreedShare("upper bound of average use over each epoch"),
            "epoch_ms": _window("length of an epoch"),
            "burst_ppm": AgreedShare("upper bound of average use over each burst"),
            "burst_ms": _window("length of a burst"),
        },
    ),
    "decay": Table(
        TimeDecay,
        keys={
            **_DECAYING,
            "factors_ppm": Factors("weight of each window, the present one first", name="factors"),
            **_NORMALISED,
        },
    ),
    "udecay": Table(
        UsageDecay,
        keys={
            **_DECAYING,
            "windows": Whole("number of past windows that count", most=MOST_WINDOWS - 1),
            "steps": Steps("pairs of a utilisation and the part of a window that is kept from it on"),
            **_NORMALISED,
        },
    ),
}
"""How much an agreement gives, in four kinds (Dumitrescu et al. 2007, section 4.1), with the keys of each."""


class LimitKind(Key):
    """``kind``, and the keys that go with it."""

    accepts = ", ".join(f"`{kind}`" for kind in LIMITS)

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - it must be there
        """Take the kind and its keys."""
        limit: Limit = LIMITS[keys.name_of(name, LIMITS)].take(keys)
        if reach_ms(limit) > MOST_REACH_MS:
            expected = f"windows of at most {MOST_REACH_MS // 1000} s (ten years) together"
            raise InvalidField(keys.where("window_s"), reach_ms(limit) / 1000, expected)
        return limit

    def to_dict(self, field_name: str, value: object) -> Plain:
        """Give the kind and its keys, complete."""
        [(kind, table)] = [(kind, table) for kind, table in LIMITS.items() if isinstance(value, table.made)]
        return {self.name_of(field_name): kind} | table.to_dict(value)


class Hours(Key):
    """Hours of the day, and under ``zone`` whose clock they are of."""

    accepts = 'hours such as `"08:00-20:00"`'

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the hours and their zone."""
        text, zone = keys.text(name, None), keys.text("zone", None)
        if text is None:
            if zone is not None:
                expected = "hours as well: zone is their time zone"
                raise InvalidField(keys.where("zone"), zone, expected)
            return default
        found = _HOURS.fullmatch(text)
        if found is None:
            raise InvalidField(keys.where(name), text, 'hours of the day such as "08:00-20:00"')
        begin_min = int(found[1]) * 60 + int(found[2])
        end_min = _DAY_MIN if found[3] is None else int(found[3]) * 60 + int(found[4])
        if begin_min == end_min:
            raise InvalidField(keys.where(name), text, "two different times of the day")
        return DailyHours(begin_min, end_min, _zone(keys, zone or "UTC"))

    def to_dict(self, field_name: str, value: object) -> Plain:
        """Give the hours and their zone."""
        if not isinstance(value, DailyHours):
            return {}
        return {self.name_of(field_name): _hours_text(value), "zone": value.zone}


def _zone(keys: Keys, name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidField(keys.where("zone"), name, 'a time zone such as "Europe/Amsterdam"') from None
    return name


def _hours_text(hours: DailyHours) -> str:
    return f"{_time_text(hours.begin_min)}-{_time_text(hours.end_min)}"


def _time_text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


RULES = Table(
    Rules,
    "Rules about single requests (Dumitrescu et al. 2007, section 2.1).",
    {
        "longest_ms": Seconds("longest duration of a lease", unset="no limit", least_ms=1),
        "hours": Hours(
            "hours of the day in which `longest_s` applies",
            more="; an end before the start is on the next day. `zone` is their time zone, by default `UTC`",
            unset="always",
        ),
        "reserved_ppm": AgreedShare("share of the resource that may be reserved in advance at any time", unset="all"),
        "reserved_longest_ms": Seconds("longest duration of an advance reservation", unset="any", least_ms=1),
    },
)


@dataclass(frozen=True)
class AgreementDate(Key):
    """A moment as a clock tells it: a date, or where a run begins at zero, seconds under ``..._s``."""

    clock: Clock
    accepts = "date, or seconds of a run"

    def read(self, keys: Keys, name: str, default: object) -> object:  # noqa: ARG002 - without it there is none
        """Take the moment."""
        return self.clock.moment(keys, name)

    def to_dict(self, field_name: str, value: object) -> Plain:
        """Give the moment as the clock tells it."""
        return self.clock.to_dict(self.name_of(field_name), value if isinstance(value, int) else None)


def _checked(is_right: Callable[[str], bool], expected: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if not is_right(text):
            raise InvalidField("text", text, expected)
        return text

    return convert


def _is_consumer(text: str) -> bool:
    return len(text) <= _LONGEST_CONSUMER and (text == EVERYBODY or is_path(text.removeprefix("@")))


def _resource(text: str) -> str:
    check_resource("resource", text)
    return text


@lru_cache(maxsize=16)
def _agreement_table(clock: Clock) -> Table[Agreement]:
    is_name = _checked(lambda text: _NAME.fullmatch(text) is not None, _A_NAME)
    return Table(
        Agreement,
        "What a provider lends to a consumer: how much, when and on which terms.",
        {
            "name": Text("name, which never changes", more=": letters, digits, `.`, `_` and `-`", convert=is_name),
            "provider": Text(
                "owner of the resources",
                more=": a site, a virtual domain, a peer gateway, or `*`, all of them together",
            ),
            "consumer": Text(
                "consumer of the resources",
                more=": a path such as `atlas/production`; `*`, all guests together; `@das3`, the virtual"
                " domain to which a site lends",
                convert=_checked(_is_consumer, _A_CONSUMER),
            ),
            "resource": Text(
                "resource that is lent",
                more=": `cpus`, `memory_mib`, or a kind and a name, such as `licence:matlab`",
                convert=_resource,
            ),
            "limit": LimitKind("kind of limit", more=", with the keys of the kind", name="kind"),
            "lending_limit": Whole("maximum number of units at a time", unset="unlimited", least=0),
            "rules": Within("rules about single requests", RULES),
            "begin_ms": AgreementDate(
                "start of the agreement",
                clock,
                more="; in a scenario also `begin_s`, seconds of the run",
                unset="always",
                name="begin",
            ),
            "end_ms": AgreementDate(
                "end of the agreement, exclusive", clock, more="; or `end_s`", unset="never", name="end"
            ),
            "priority": Whole(
                "of several agreements on one provider, consumer and resource, only those with the highest"
                " priority apply",
                more=": for example, an exception for a week",
                least=0,
            ),
            "penalty": Whole(
                "severity of breaking it",
                more="; an agreement above the `threshold` of `[sharing]` is never broken",
                least=0,
            ),
            "penalty_ms": Seconds(
                "duration of the penalty",
                more=", during which no agreement between these two parties may be broken",
                unset="until it is lifted",
                name="penalty_lasts_s",
                least_ms=1,
            ),
            "parent": Text("agreement of which this one delegates a part", unset="none"),
            "relative": Flag("its shares are relative to those of the parent, not to the provider"),
        },
    )


AGREEMENT = _agreement_table(UNIX_TIME)
"""``[[agreement]]`` of a live gateway."""


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
            raise InvalidField(key, value, "a value; leave the key out for its default")
    return read_agreement(Keys(values), clock)


def read_agreement(keys: Keys, clock: Clock) -> Agreement:
    """Check the keys of one agreement and refuse whatever else is there.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    end_key = "end" if "end" in keys else "end_s"
    agreement = _agreement_table(clock).take(keys)
    rules = agreement.rules
    if rules.hours is not None and rules.longest_ms is None:
        expected = "longest_s as well: hours say when leases are limited to it"
        raise InvalidField(keys.where("hours"), _hours_text(rules.hours), expected)
    if _ends_before_it_begins(agreement):
        [end] = clock.to_dict("end", agreement.end_ms).values()
        raise InvalidField(keys.where(end_key), end, "a time after begin")
    _check_parent(keys, agreement)
    keys.done()
    return agreement


def _ends_before_it_begins(agreement: Agreement) -> bool:
    begin_ms, end_ms = agreement.begin_ms, agreement.end_ms
    return begin_ms is not None and end_ms is not None and end_ms <= begin_ms


def _check_parent(keys: Keys, agreement: Agreement) -> None:
    if agreement.parent == agreement.name:
        raise InvalidField(keys.where("parent"), agreement.parent, "another agreement")
    if agreement.relative and not agreement.parent:
        raise InvalidField(keys.where("relative"), True, "parent as well: shares are parts of its capacity")  # noqa: FBT003
    if agreement.parent and agreement.consumer == EVERYBODY:
        raise InvalidField(keys.where("consumer"), EVERYBODY, "a consumer beneath that of the parent")


def agreement_to_dict(agreement: Agreement, clock: Clock = UNIX_TIME) -> Plain:
    """Give the keys of an agreement that have not their defaults: `read_agreement` reads the same one."""
    table = _agreement_table(clock)
    return differing(table.to_dict(agreement), table.defaults())


@cache
def _schema_text() -> str:
    return (files("leasehold.configuration") / "agreement.schema.json").read_text(encoding="utf-8")


def agreement_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of a document; ``$defs.agreement`` is that of one agreement."""
    schema: dict[str, Any] = json.loads(_schema_text())
    return schema


@dataclass(frozen=True, slots=True)
class AgreementDocument:
    """What a file of agreements says. ``sharing`` is None where it does not say how they are applied."""

    agreements: tuple[Agreement, ...]
    domains: tuple[DomainSpec, ...] = field(default=())
    sharing: SharingSpec | None = None

    def to_dict(self, clock: Clock = UNIX_TIME) -> Plain:
        """Give the tables of the file, without those that it has not."""
        plain: Plain = {} if self.sharing is None else {"sharing": SHARING.to_dict(self.sharing)}
        if self.domains:
            plain["domain"] = [DOMAIN.to_dict(domain) for domain in self.domains]
        return plain | {"agreement": [agreement_to_dict(agreement, clock) for agreement in self.agreements]}


def load_document(path: Path, clock: Clock = UNIX_TIME) -> AgreementDocument:
    """Read a file of agreements; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        return read_document(Keys(file.values), clock)


def read_document(keys: Keys, clock: Clock = UNIX_TIME) -> AgreementDocument:
    """Check the tables of a document, of which at least one is an ``[[agreement]]``.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    document = AgreementDocument(
        agreements=read_agreements(keys, clock),
        domains=read_domains(keys),
        sharing=SHARING.read(keys.table("sharing")) if "sharing" in keys else None,
    )
    keys.done()
    if not document.agreements:
        raise InvalidField(keys.where("agreement"), None, "at least one [[agreement]]")
    return document
