"""Nothing secret in logs: what looks like a token or a password is replaced before a text is written.

Rather too much is taken than too little: a log with a hole can still be read, a secret in a log cannot be
taken back. Tokens of Leasehold keep their id, which is no secret and says which one it was.
"""

import re
from collections.abc import Mapping

from structlog.typing import EventDict, WrappedLogger

HIDDEN = "[hidden]"

_SECRET_KEYS = re.compile(
    r"(?i)authorization|cookie|password|passwd|passphrase|secret|credential|^(access_|refresh_|id_)?token$|api_?key"
)

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # JWTs, before anything takes a piece out of one: the first part is base64url of {" or of { and a blank
    (re.compile(r"e(?:y[A-DI-L]|w[k-r0-3])[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*"), HIDDEN),
    # lh_<id>_<secret>
    (re.compile(r"(lh_[0-9A-Za-z]+_)[A-Za-z0-9_-]+"), rf"\1{HIDDEN}"),
    # Authorization: ..., in headers, dictionaries and curl commands: to the end of the line or the quote
    (re.compile(r"""(?i)(authorization["']?\s*[:=,]\s*b?["']?)[^"'\r\n]+"""), rf"\1{HIDDEN}"),
    # Bearer ..., Basic ... elsewhere; a word of ordinary length may just be prose
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9\-._~+/]{16,}=*"), rf"\1\2{HIDDEN}"),
    # scheme://user:password@host; a password may have whatever its writer forgot to escape
    (re.compile(r"(://[^\s:/@]*:)\S*@"), rf"\1{HIDDEN}@"),
    # ?access_token=..., password=...
    (re.compile(r"(?i)((?:token|password|passwd|secret|api_?key)=)[^\s&;,\"']+"), rf"\1{HIDDEN}"),
)

_MOST_DEPTH = 8


def redacted(text: str) -> str:
    """Give a text with every secret in it hidden; a text without any as it is."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide the secrets of a line of log, however deep: a processor for structlog, right before the renderer.

    Whatever is said under the name of a secret (``authorization``, ``password``) is hidden as a whole.
    Tracebacks have to be text by then (`structlog.processors.format_exc_info`).
    """
    return {key: clean(key, value) for key, value in event.items()}


def clean(key: str, value: object, depth: int = 0) -> object:
    """Hide the secrets of one value that is said under this name."""
    if _SECRET_KEYS.search(key) and value is not None:
        return HIDDEN
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bool | int | float | None):
        return value
    return _clean_nested(value, depth)


def _clean_nested(value: object, depth: int) -> object:
    if isinstance(value, Mapping) and depth < _MOST_DEPTH:
        return {redacted(str(key)): clean(str(key), one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _MOST_DEPTH:
        return [clean("", one, depth + 1) for one in value]
    shown = repr(value)
    return value if redacted(shown) == shown else redacted(shown)
