"""The rules of an agreement about one request at a time (Dumitrescu et al. 2007, section 2.1).

Those of DAS, for example: *nothing longer than 15 minutes from 08:00 to 20:00; at most half may be reserved
in advance, for two weeks at the longest*.
"""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from leasehold.configuration.declaration import Plain, seconds
from leasehold.configuration.keys import Keys
from leasehold.configuration.limits import read_share, share_of
from leasehold.model.agreement import DailyHours, Rules
from leasehold.model.errors import InvalidField

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)")
_DAY_MIN = 24 * 60


def read_rules(keys: Keys) -> Rules:
    """Take the keys of all rules; raises InvalidField with the place of the key."""
    longest_ms = keys.milliseconds("longest_s", None, least_ms=1)
    hours = _hours(keys)
    if hours is not None and longest_ms is None:
        expected = "longest_s beside it: hours say when nothing may be longer than that"
        raise InvalidField(keys.where("hours"), _hours_text(hours), expected)
    return Rules(
        longest_ms=longest_ms,
        hours=hours,
        reserved_ppm=read_share(keys, "reserved_share") if "reserved_share" in keys else None,
        reserved_longest_ms=keys.milliseconds("reserved_longest_s", None, least_ms=1),
    )


def _hours(keys: Keys) -> DailyHours | None:
    text, zone = keys.text("hours", None), keys.text("zone", None)
    if text is None:
        if zone is not None:
            raise InvalidField(
                keys.where("zone"), zone, "hours beside it: a zone says whose clock they are of"
            )
        return None
    found = _HOURS.fullmatch(text)
    if found is None:
        raise InvalidField(keys.where("hours"), text, 'hours of the day such as "08:00-20:00"')
    begin_min = _minutes(found[1], found[2])
    end_min = _DAY_MIN if found[3] is None else _minutes(found[3], found[4])
    if begin_min == end_min:
        raise InvalidField(keys.where("hours"), text, "two different times of the day")
    return DailyHours(begin_min, end_min, _zone(keys, zone or "UTC"))


def _minutes(hour: str, minute: str) -> int:
    return int(hour) * 60 + int(minute)


def _zone(keys: Keys, name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidField(keys.where("zone"), name, 'a time zone such as "Europe/Amsterdam"') from None
    return name


def rules_to_dict(rules: Rules) -> Plain:
    """Give the keys of the rules that there are."""
    told = seconds("longest_s", rules.longest_ms)
    if rules.hours is not None:
        told |= {"hours": _hours_text(rules.hours), "zone": rules.hours.zone}
    if rules.reserved_ppm is not None:
        told["reserved_share"] = share_of(rules.reserved_ppm)
    return told | seconds("reserved_longest_s", rules.reserved_longest_ms)


def _hours_text(hours: DailyHours) -> str:
    return f"{_time_text(hours.begin_min)}-{_time_text(hours.end_min)}"


def _time_text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
