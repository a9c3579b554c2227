"""The page of the form, whole: its style and its script are in it, and nothing comes from elsewhere."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from leasehold.service.api.home.page import page_headers, source_hash

_HERE = files(__package__)


@cache
def page() -> str:
    """Put the page together."""
    return _text("jobs.html").replace("/* style */", _style()).replace("/* script */", _script())


@cache
def headers() -> Mapping[str, str]:
    """Security headers: the browser runs only this script, and connects only to this gateway."""
    policy = {
        "script-src": source_hash(_script()),
        "style-src": source_hash(_style()),
        "connect-src": "'self'",
        "form-action": "'none'",
    }
    return page_headers(policy, cache="no-cache")


def _style() -> str:
    return _text("jobs.css")


def _script() -> str:
    return _text("jobs.js")


@cache
def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
