"""What a browser may do with a page of ours: nothing but what the page says that it needs."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256


def page_headers(policy: Mapping[str, str], *, cache: str) -> dict[str, str]:
    """Give the headers of a page; ``policy`` are the sources that it is allowed beside images in itself."""
    allowed = {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        **policy,
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {source}" for name, source in allowed.items()),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": cache,
    }


def source_hash(text: str) -> str:
    """Name an inline style or script as a source, by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
