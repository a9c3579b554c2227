"""The state machine of a lease is the table on the page `docs/specs/lease-states.md`, and nothing else."""

import re
from itertools import product
from pathlib import Path

import pytest

from leasehold.model.errors import TransitionError
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.lifecycle import MOVES, Step, advance
from leasehold.model.request import LeaseType, Request

PAGE = Path(__file__).parents[2] / "docs" / "specs" / "lease-states.md"
ROW = re.compile(r"^\| `([a-z]+)` \| `([a-z-]+)` \| `([a-z]+)` \|$")


def written_down() -> dict[str, dict[tuple[str, str], str]]:
    """The tables of the page by their headings."""
    tables: dict[str, dict[tuple[str, str], str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").removesuffix(": additional steps").lower()
        elif match := ROW.match(line):
            tables.setdefault(heading, {})[match[1], match[2]] = match[3]
    return tables


def lease(kind: LeaseType, state: LeaseState) -> Lease:
    return Lease(1, Request(1, kind, 1, 1000, 0, 0), 1, 1, 1000, state=state)


@pytest.mark.parametrize("kind", LeaseType)
def test_the_page_and_the_code_say_the_same(kind: LeaseType) -> None:
    tables = written_down()
    expected = tables["all types"] | tables.get(kind.label, {})
    assert {(str(a), str(b)): str(c) for (a, b), c in MOVES[kind].items()} == expected


@pytest.mark.parametrize("kind", LeaseType)
def test_every_step_leads_where_the_table_says_or_is_refused(kind: LeaseType) -> None:
    for state, step in product(LeaseState, Step):
        subject = lease(kind, state)
        target = MOVES[kind].get((state, step))
        if target is None:
            with pytest.raises(TransitionError, match=rf"lease 1 \({kind.label}, {state}\) cannot {step}"):
                advance(subject, step)
        else:
            advance(subject, step)
        assert subject.state is (target or state)


@pytest.mark.parametrize("kind", LeaseType)
def test_nothing_follows_a_final_state_and_every_other_state_can_end(kind: LeaseType) -> None:
    reachable = {LeaseState.SUBMITTED} | set(MOVES[kind].values())
    leaving = {state for state, _ in MOVES[kind]}
    assert {state for state in reachable if state.is_final} == reachable - leaving


def test_only_preemptable_types_can_lose_their_room() -> None:
    losing = {Step.SUSPEND, Step.TERMINATE, Step.MIGRATE}
    by_type = {kind: losing & {step for _, step in MOVES[kind]} for kind in LeaseType}
    assert by_type == {
        LeaseType.CANCELABLE: {Step.TERMINATE},
        LeaseType.SUSPENDABLE: {Step.SUSPEND},
        LeaseType.MIGRATABLE: {Step.SUSPEND, Step.MIGRATE},
        LeaseType.NON_PREEMPTABLE: set(),
    }
