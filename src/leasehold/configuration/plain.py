"""Settings as the keys of a file say them: times in seconds, and nothing that is not set."""

from typing import Any

Plain = dict[str, Any]


def seconds(key: str, value_ms: int | None) -> Plain:
    """Give the key of a time in seconds, a whole number where it is one; nothing for no time."""
    if value_ms is None:
        return {}
    return {key: value_ms // 1000 if value_ms % 1000 == 0 else value_ms / 1000}


def differing(values: Plain, usual: Plain) -> Plain:
    """Keep what is not as usual."""
    return {key: value for key, value in values.items() if usual.get(key) != value}
