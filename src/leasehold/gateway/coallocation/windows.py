"""From when until when a component would hold machines of a site: what its place has to be free for.

Each is a `leasehold.gateway.coallocation.assigning.Window`, which is told the site, and how long files travel
there.
"""

from leasehold.gateway.coallocation.assigning import Window


def all_from(start_ms: int, now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component run from a common start on, if its files are there by then."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        in_time = now_ms + transfer_ms <= start_ms and _by(deadline_ms, start_ms + span_ms)
        return (start_ms, start_ms + span_ms) if in_time else None

    return window


def room_now(now_ms: int, margin_ms: int, deadline_ms: int | None) -> Window:
    """Let there be room from now on, until a component would be done that starts once its files are there."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        end_ms = now_ms + transfer_ms + margin_ms + span_ms
        return (now_ms, end_ms) if _by(deadline_ms, end_ms) else None

    return window


def claimed_now(placed_at: str, start_ms: int, now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component hold machines from now on, and run from a common start on.

    Its files are on their way to where it was placed; to another site they have to travel from now on.
    """

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:
        in_time = site == placed_at or now_ms + transfer_ms <= start_ms
        return (now_ms, start_ms + span_ms) if in_time and _by(deadline_ms, start_ms + span_ms) else None

    return window


def at_once(now_ms: int, deadline_ms: int | None) -> Window:
    """Let a component hold machines from now on, wait for its files, and run."""

    def window(site: str, transfer_ms: int, span_ms: int) -> tuple[int, int] | None:  # noqa: ARG001 - a Window
        end_ms = now_ms + transfer_ms + span_ms
        return (now_ms, end_ms) if _by(deadline_ms, end_ms) else None

    return window


def _by(deadline_ms: int | None, end_ms: int) -> bool:
    return deadline_ms is None or end_ms <= deadline_ms
