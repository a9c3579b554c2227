"""A job that comes as XML: it is made JSON first, and from there on it is as if it had come so."""

import json

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import Message

from leasehold.configuration.job_description.description import Looking, body_of, read_fields
from leasehold.configuration.job_description.documents import JSDL, read_xml
from leasehold.model.errors import InputError, InvalidField
from leasehold.protocol.fields import read_moment, show_moment, unix_ms
from leasehold.protocol.wrong_fields import NOT_SHOWN
from leasehold.service.api.authorizer import GuardedRoute, JsonRequest, media_type_of

XML = ("application/xml", "text/xml")

DECLARED = {
    "requestBody": {
        "content": {
            "application/xml": {"schema": {"type": "string", "description": f"A JobDefinition of JSDL ({JSDL})."}}
        }
    }
}
"""What the OpenAPI says beside what it says of JSON."""


class JobRoute(GuardedRoute):
    """A route that also takes a job as XML."""

    async def readable(self, request: Request) -> Request:
        """Make JSON of XML; raises InvalidField for XML that describes no job."""
        if media_type_of(request) not in XML:
            return await super().readable(request)
        body = _as_json(await request.body())
        scope = dict(request.scope)
        headers = MutableHeaders(raw=[*scope["headers"]])
        headers["content-type"], headers["content-length"] = "application/json", str(len(body))
        scope["headers"] = headers.raw

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return JsonRequest(scope, receive)


def _as_json(content: bytes) -> bytes:
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
    return json.dumps(body_of(description) | deadline).encode()


def _moment(field: str, text: str) -> int:
    try:
        return unix_ms(read_moment(text))
    except ValueError as error:
        raise InvalidField(field, text, str(error)) from None


def _no_size(field: str, path: str) -> int:
    raise InvalidField(field, path, "a Size beside it: the gateway does not see the files of its callers")
