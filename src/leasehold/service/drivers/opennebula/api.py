"""How OpenNebula is called: XML-RPC over HTTP, with bounds on what it may answer.

An answer contains what users and guests have written. It is read only up to a size, within a time, and without document
types, so that it has no entities; characters that XML does not allow are replaced.
"""

import os
import re
import ssl
import stat
import time
import xmlrpc.client
from enum import IntEnum
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.drivers.bounds import one_line
from leasehold.service.drivers.reconciler.provider import TransientError

MOST_BYTES = 16 * 1024 * 1024
"""Of an answer: some 2,000 machines."""
MOST_TAGS = 1_000_000
"""Begun or ended in an answer."""
MOST_MESSAGE = 300
"""Characters of an error that are passed on."""
_MOST_SESSION_BYTES = 1024
_CHUNK_BYTES = 64 * 1024

_NO_DOCUMENT_TYPE = re.compile(r"\s*(<\?xml[^<>]*\?>)?\s*<[A-Za-z_]")
"""What begins like this has none: after the root element begins, there can be none."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Code(IntEnum):
    """OpenNebula's codes of errors."""

    AUTHENTICATION = 0x0100
    AUTHORIZATION = 0x0200
    NO_EXISTS = 0x0400
    ACTION = 0x0800
    XML_RPC_API = 0x1000
    INTERNAL = 0x2000
    ALLOCATE = 0x4000
    LOCKED = 0x8000


class Refused(LeaseholdError):
    """OpenNebula answered a call with an error; ``code`` is one of `Code`, or another number."""

    def __init__(self, message: str, code: int) -> None:
        self.code = code
        super().__init__(f"OpenNebula says: {one_line(message, MOST_MESSAGE)}")


class OpenNebula:
    """Calls of one user; from any thread, since each call has a connection of its own.

    A call that cannot be made, or whose answer cannot be read, raises `TransientError`: it may have been carried out.
    """

    def __init__(self, endpoint: str, auth_file: Path | None, answer_within_s: float) -> None:
        parts = urlsplit(endpoint)
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path or "/RPC2"
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._auth_file = auth_file or Path("~/.one/one_auth").expanduser()
        self._within_s = answer_within_s
        read_session(self._auth_file)

    def call(self, method: str, *arguments: object) -> object:
        """Call a method, and return what it answers; raises `Refused` or `TransientError`."""
        try:
            session = read_session(self._auth_file)  # at each call: it may be replaced while the gateway runs
        except InputError as error:
            raise TransientError(str(error)) from error
        request = xmlrpc.client.dumps((session, *arguments), method)  # type: ignore[arg-type]  # texts, numbers, flags
        worked, value, code = _read_answer(self._post(request.encode()))
        if worked:
            return value
        if code == Code.AUTHENTICATION:
            raise TransientError(f"OpenNebula does not accept the credentials in {self._auth_file}")
        raise Refused(str(value), code)

    def document(self, method: str, *arguments: object) -> ET.Element:
        """Call a method that answers with a document in XML, and return its root."""
        text = self.call(method, *arguments)
        try:
            return ET.fromstring(checked(str(text)))  # noqa: S314 - without document type, so without entities
        except (ET.ParseError, ValueError) as error:
            raise TransientError(f"OpenNebula's answer to {method} cannot be read: {error}") from error

    def _post(self, body: bytes) -> str:
        connection = (
            HTTPConnection(self._host, self._port, timeout=self._within_s)
            if self._tls is None
            else HTTPSConnection(self._host, self._port, timeout=self._within_s, context=self._tls)
        )
        try:
            return self._exchange(connection, body)
        except (OSError, HTTPException) as error:
            raise TransientError(f"OpenNebula does not answer: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()

    def _exchange(self, connection: HTTPConnection, body: bytes) -> str:
        until_s = time.monotonic() + self._within_s
        connection.request("POST", self._path, body, {"Content-Type": "text/xml", "User-Agent": "leasehold"})
        response = connection.getresponse()
        if response.status != 200:  # noqa: PLR2004 - OK
            raise TransientError(f"OpenNebula answers with the HTTP status {response.status}")
        answer = bytearray()
        while part := response.read1(_CHUNK_BYTES):
            answer += part
            if len(answer) > MOST_BYTES:
                raise TransientError(f"OpenNebula's answer has more than {MOST_BYTES} bytes")
            if time.monotonic() > until_s:
                raise TransientError(f"OpenNebula's answer takes more than {self._within_s:g} s")
        return answer.decode(errors="replace")


def read_session(path: Path) -> str:
    """Read credentials, which only their owner can read; raises InputError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(path, None, "is not a regular file")
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(path, None, f"can be read by others: chmod 600 {path}")
        session = os.read(descriptor, _MOST_SESSION_BYTES).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    if ":" not in session or not session.isprintable():
        raise InputError(path, None, "does not hold user:password on one line")
    return session


def checked(text: str) -> str:
    """Make a document fit to be parsed; raises ValueError for one that has a document type, or too many tags."""
    if not _NO_DOCUMENT_TYPE.match(text):
        raise ValueError("it is no XML, or has a document type")
    if text.count("<") > MOST_TAGS:
        raise ValueError(f"it has more than {MOST_TAGS} tags")
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _read_answer(text: str) -> tuple[bool, object, int]:
    """Read whether a call has succeeded, what it answers or what is wrong, and the code of that."""
    try:
        parameters: tuple[Any, ...] = xmlrpc.client.loads(checked(text))[0]
        worked, value, code, *_ = parameters[0]
        if isinstance(worked, bool) and isinstance(code, int):
            return worked, value, code
    except xmlrpc.client.Fault as fault:
        raise Refused(str(fault.faultString), Code.XML_RPC_API) from fault
    except Exception as error:
        raise TransientError(f"OpenNebula's answer is not XML-RPC: {type(error).__name__}") from error
    raise TransientError("OpenNebula's answer is not one of its API")
