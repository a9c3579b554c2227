"""Random orders at random times, as Hypothesis draws them: sensible ones, late ones, and nonsense."""

from hypothesis import strategies as st

from leasehold.service.drivers.protocol import Order, Verb
from leasehold.testing.driver_rig import order

Program = list[tuple[int, list[Order]]]
"""Batches of orders, and how many milliseconds each comes after the one before."""

COMMANDS = [(), ("sleep", "0.02"), ("sleep", "0.007"), ("sleep", "0")]


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """An order for one of three leases."""
    return order(
        draw(st.sampled_from([*Verb, Verb.START, Verb.SUSPEND, Verb.RESUME])),
        lease_id=draw(st.integers(1, 3)),
        incarnation=draw(st.integers(1, 5)),
        vms=draw(st.integers(1, 3)),
        command=draw(st.sampled_from(COMMANDS)),
        work_done=draw(st.integers(0, 25)) * 333,
    )


def programs() -> st.SearchStrategy[Program]:
    """Up to twenty batches."""
    batches = st.lists(orders(), min_size=1, max_size=4)
    return st.lists(st.tuples(st.integers(0, 15), batches), max_size=20)
