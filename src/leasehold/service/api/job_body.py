"""Jobs that come as XML or as the fields of the submission form: they are turned into JSON, and then read like any."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import Message

from leasehold.configuration.job_description.description import BYTES, MIB, Looking, body_of, read_array, read_fields
from leasehold.configuration.job_description.documents import JSDL, read_xml
from leasehold.model.errors import InputError, InvalidField
from leasehold.protocol.fields import read_moment, show_moment, unix_ms
from leasehold.protocol.wrong_fields import NOT_SHOWN
from leasehold.service.api.authorizer import GuardedRoute, JsonRequest, media_type_of

XML = ("application/xml", "text/xml")
FORM = "application/x-www-form-urlencoded"

DECLARED = {
    "requestBody": {
        "content": {
            "application/xml": {"schema": {"type": "string", "description": f"A JobDefinition of JSDL ({JSDL})."}}
        }
    }
}
"""What the OpenAPI says beside what it says of JSON. The fields of the form are an agreement with that page alone."""


class JobRoute(GuardedRoute):
    """A route that also takes a job as XML, or as the fields of the form."""

    async def readable(self, request: Request) -> Request:
        """Turn the body into JSON; raises InvalidField for one that describes no job."""
        read = _READERS.get(media_type_of(request))
        if read is None:
            return await super().readable(request)
        body = json.dumps(read(await request.body())).encode()
        scope = dict(request.scope)
        headers = MutableHeaders(raw=[*scope["headers"]])
        headers["content-type"], headers["content-length"] = "application/json", str(len(body))
        scope["headers"] = headers.raw

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return JsonRequest(scope, receive)


# XML


def _of_xml(content: bytes) -> dict[str, Any]:
    try:
        document = read_xml(content.decode("utf-8-sig"), "body")
        description = read_fields(document.values, Looking(moment_ms=_moment, size_of=_no_size))
    except UnicodeDecodeError:
        raise InvalidField("body", NOT_SHOWN, "XML in UTF-8") from None
    except InputError as error:
        place = "" if error.line is None else f"line {error.line} "
        expected = f"a description of a job in XML: {place}{error.problem}"
        raise InvalidField("body", NOT_SHOWN, expected) from None
    deadline_ms = description.deadline_ms
    deadline = {} if deadline_ms is None else {"deadline": show_moment(deadline_ms)}
    return body_of(description) | deadline


def _moment(field: str, text: str) -> int:
    try:
        return unix_ms(read_moment(text))
    except ValueError as error:
        raise InvalidField(field, text, str(error)) from None


def _no_size(field: str, path: str) -> int:
    raise InvalidField(field, path, "a Size as well: the gateway does not see the files of its callers")


# The form: named as in JSON; an amount with a unit is two controls of one name, a row of files four

_MEMORY = {unit: Decimal(BYTES[unit]) / MIB for unit in ("MiB", "GiB")}
_TIME = {"seconds": Decimal(1), "minutes": Decimal(60), "hours": Decimal(3600)}
_SIZE = {unit: Decimal(BYTES[unit]) for unit in ("B", "KiB", "MiB", "GiB", "TiB")}
_AMOUNTS: Mapping[str, tuple[Mapping[str, Decimal], Decimal]] = {
    "memory_mib": (_MEMORY, Decimal(1)),
    "disk_mib": (_MEMORY, Decimal(1)),
    "execution_s": (_TIME, Decimal("0.001")),
}
"""The units of each amount, and to what it is rounded up."""
_NUMBERS = frozenset({"cores", "cpu_mhz", "need", "nodes", "reliability", "restarts"})
_ROW = ("inputs.name", "inputs.size_bytes", "inputs.unit", "inputs.place")
_NUMBER = re.compile(r"-?(\d{1,12}([.,]\d{0,12})?|[.,]\d{1,12})", re.ASCII)


def _of_form(content: bytes) -> dict[str, Any]:
    """Give the fields as JSON has them, without empty ones; what cannot be read as a number stays text."""
    try:
        fields = parse_qs(content.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        raise InvalidField("body", NOT_SHOWN, "the fields of a form, in UTF-8") from None
    rows = zip(*(fields.pop(name, []) for name in _ROW), strict=False)
    inputs = [
        {"name": name.strip(), "size_bytes": _amount(size, _SIZE.get(unit), Decimal(1)), "place": place.strip()}
        for name, size, unit, place in rows
    ]
    read = {name: _field(name, values) for name, values in fields.items()}
    filled = {name: value for name, value in read.items() if value not in ("", [], {}) or name == "command"}
    return filled | ({"inputs": inputs} if inputs else {})


def _field(name: str, values: list[str]) -> object:
    text = values[0].strip()
    if name == "command":
        try:
            return shlex.split(text)
        except ValueError as error:
            raise InvalidField(name, text, f"words as for a shell ({error})") from None
    if name in {"software", "outputs"}:
        return [line for line in map(str.strip, text.splitlines()) if line]
    if name == "environment":
        pairs = (line.partition("=") for line in text.splitlines() if line.strip())
        return {variable.strip(): value for variable, _, value in pairs}
    if name == "array":
        return list(read_array(name, text)) if text else ""
    if name in _AMOUNTS:
        units, step = _AMOUNTS[name]
        return _amount(text, units.get(values[-1]), step)
    return _amount(text) if name in _NUMBERS else text


def _amount(text: str, unit: Decimal | None = Decimal(1), step: Decimal | None = None) -> int | float | str:
    """Read a number of units, rounded up to a multiple of ``step``."""
    if unit is None or not _NUMBER.fullmatch(text.strip()):
        return text.strip()
    value = Decimal(text.strip().replace(",", ".")) * unit
    if step is not None:
        value = value.quantize(step, ROUND_CEILING)
    return int(value) if value == value.to_integral_value() else float(value)


_READERS: Mapping[str, Callable[[bytes], dict[str, Any]]] = dict.fromkeys(XML, _of_xml) | {FORM: _of_form}
