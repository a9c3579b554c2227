"""Whom would each policy preempt? Every unbeaten set is shown, and whatever a policy chooses."""

from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.victims.candidate import Candidate, ids_of, vms_of
from leasehold.leasing.victims.front import compare, front
from leasehold.leasing.victims.registry import VICTIM_POLICIES
from leasehold.model.request import LeaseType

KIND = LeaseType.SUSPENDABLE


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=7), st.data())
def test_each_policy_stands_at_what_it_chooses(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    leases = [Candidate(number, KIND, vms, cost, 0) for number, (vms, cost) in enumerate(shapes)]
    needed_vms = data.draw(st.integers(1, vms_of(leases)))
    found = compare(leases, needed_vms, VICTIM_POLICIES)
    chosen = {name: option.victims for option in found.options for name in option.chosen_by}
    assert chosen == {name: policy.choose(leases, needed_vms).victims for name, policy in VICTIM_POLICIES.items()}
    unbeaten = [option.victims for option in found.options if not option.is_beaten]
    assert set(front(leases, needed_vms).sets) <= set(unbeaten)
    assert [option.score for option in found.options] == sorted(option.score for option in found.options)


def test_an_unbeaten_set_that_nobody_chooses_is_shown_too() -> None:
    leases = [Candidate(1, KIND, 4, 9, 0), Candidate(2, KIND, 2, 1, 0), Candidate(3, KIND, 3, 1, 0)]
    found = compare(leases, 4, {"mov": VICTIM_POLICIES["mov"]})
    assert [(ids_of(option.victims), option.chosen_by) for option in found.options] == [
        ((1,), ()),
        ((2, 3), ("mov",)),
    ]
