"""The page of the form, whole: its style and its script are in it, and nothing comes from elsewhere."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

_HERE = files(__package__)


@cache
def page() -> str:
    """Put the page together."""
    return _text("jobs.html").replace("/* style */", _style()).replace("/* script */", _script())


@cache
def headers() -> Mapping[str, str]:
    """Say what a browser may do for it: run this script and no other, and talk to nobody but this gateway."""
    policy = {
        "default-src": "'none'",
        "script-src": _hash_of(_script()),
        "style-src": _hash_of(_style()),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {source}" for name, source in policy.items()),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }


def _style() -> str:
    return _text("jobs.css")


def _script() -> str:
    return _text("jobs.js")


@cache
def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
