"""Who stands outside and remembers every word: what was once said must be so ever after.

Everything here comes from answers and changes as they were received from a process that has been killed many
times; nothing from its store. Each contradiction is an AssertionError.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.service.crash.notary import Notary

from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.service.commands import Cancel, Command, Drain, Extend, Submit, Undrain
from leasehold.service.store.rows import JournalRow, LeaseRow

_FINAL = frozenset(state.value for state in LeaseState if state.is_final)


@dataclass
class Witness:
    """What was asked, and what was answered.

    ``asked``     every request, by its key
    ``accepted``  the lease that a key was answered with
    ``over``      the final state of each lease that was said to have one
    ``lines``     of the journal, by their number
    """

    asked: dict[str, Submit] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    over: dict[int, str] = field(default_factory=dict)
    lines: dict[int, JournalRow] = field(default_factory=dict)
    drained: dict[str, bool] = field(default_factory=dict)
    agreements: Notary = field(default_factory=Notary)
    _longer_at_least_ms: Counter[int] = field(default_factory=Counter)
    _longer_at_most_ms: Counter[int] = field(default_factory=Counter)

    @property
    def last_seq(self) -> int:
        """The number of the last line that was heard."""
        return max(self.lines, default=0)

    def open_leases(self) -> list[int]:
        """Those that were accepted and not said to be over, the oldest first."""
        return sorted(set(self.accepted.values()) - self.over.keys())

    def tale(self, lease_id: int) -> str:
        """Everything that was heard of a lease, for whoever has to find out what went wrong."""
        lines = [line for _, line in sorted(self.lines.items()) if line.lease_id == lease_id]
        return "\n".join([f"lease {lease_id}", *map(str, lines)])

    # What was asked

    def heard_ask(self, command: Command) -> None:
        """A command goes out; what comes of it may never be known."""
        match command:
            case Submit():
                self.asked[command.key] = command
            case Extend():
                self._longer_at_most_ms[command.lease_id] += command.by_ms
            case Drain() | Undrain():
                self.drained.pop(command.site, None)
            case _:
                pass

    # What was answered

    def heard_answer(self, command: Command, answer: Any) -> None:
        """An answer was received that is not an error."""
        match command:
            case Submit():
                row, new = answer
                self._heard_accepted(command, row, new=new)
            case Extend():
                self._longer_at_least_ms[command.lease_id] += command.by_ms
                self.heard_lease(answer)
            case Cancel():
                self.heard_lease(answer)
                assert command.lease_id in self.over, f"lease {command.lease_id} was cancelled and goes on"
            case Drain() | Undrain():
                self.drained[command.site] = isinstance(command, Drain)
            case _:
                self.agreements.heard(answer)

    def _heard_accepted(self, command: Submit, row: LeaseRow, *, new: bool) -> None:
        before = self.accepted.get(command.key)
        assert before is None or not new, f"{command.key} was accepted as lease {before}, and again as new"
        assert before in (None, row.lease.id), f"{command.key} led to the leases {before} and {row.lease.id}"
        self.accepted[command.key] = row.lease.id
        self.heard_lease(row)
        self._is_what_was_asked(command, row)

    def _is_what_was_asked(self, command: Submit, row: LeaseRow) -> None:
        got = (
            row.metadata.name,
            row.lease.request.consumer,
            row.lease.request.lease_type,
            row.lease.vms,
            row.lease.request.site,
            row.lease.request.deadline_ms,
        )
        asked = (
            command.metadata.name,
            command.consumer,
            command.request.lease_type,
            command.request.vms,
            command.request.site,
            command.request.deadline_ms,
        )
        assert got == asked, f"lease {row.lease.id}: asked for {asked}, got {got}"
        longer_ms = row.lease.request.duration_ms - command.request.duration_ms
        least_ms, most_ms = self._longer_at_least_ms[row.lease.id], self._longer_at_most_ms[row.lease.id]
        assert least_ms <= longer_ms <= most_ms, (
            f"longer by {longer_ms} ms, expected {least_ms} to {most_ms}: {self.tale(row.lease.id)}"
        )

    def heard_lease(self, row: LeaseRow) -> None:
        """A lease was seen as it is."""
        lease_id, state = row.lease.id, row.lease.state
        assert self.over.get(lease_id, state) == state, f"{self.over[lease_id]}, then {state}: {self.tale(lease_id)}"
        if state in _FINAL:
            self.over[lease_id] = state

    def heard_lines(self, rows: Iterable[JournalRow]) -> None:
        """The journal was read, here and there for the second time."""
        for row in rows:
            known = self.lines.setdefault(row.seq, row)
            assert known == row, f"the journal has changed: {known} became {row}"
            lease_id = row.lease_id
            if row.what == "closed" and lease_id is not None:
                self.over.setdefault(lease_id, row.state)
                assert self.over[lease_id] == row.state, f"lease {lease_id}: {self.over[lease_id]}, then {row}"

    # What must be so

    def everything_is_there(self, rows: Iterable[LeaseRow]) -> None:
        """All leases as they are stored: nothing that was accepted is missing, doubled or different."""
        by_id = {row.lease.id: row for row in rows}
        times = Counter(row.metadata.name for row in by_id.values())
        assert times.keys() <= self.asked.keys(), f"never asked for: {times.keys() - self.asked.keys()}"
        twice = [name for name, count in times.items() if count > 1]
        assert not twice, f"taken in more than once: {twice}"
        for key, lease_id in self.accepted.items():
            assert lease_id in by_id, f"lease {lease_id} ({key}) was accepted, and is lost"
            self._is_what_was_asked(self.asked[key], by_id[lease_id])
        for row in by_id.values():
            self.heard_lease(row)

    def drains_are_kept(self, drained: set[str]) -> None:
        """Sites are drained or not as was last said."""
        for site, is_drained in self.drained.items():
            assert (site in drained) == is_drained, f"site {site}: drained is {not is_drained}"

    def everything_is_over(self, rows: Iterable[LeaseRow]) -> None:
        """Each lease has reached one final state, once, and the journal tells of nothing later."""
        closings = Counter(line.lease_id for line in self.lines.values() if line.what == "closed")
        last = {line.lease_id: line for _, line in sorted(self.lines.items())}
        for row in rows:
            assert closings[row.lease.id] == 1, f"lease {row.lease.id} was closed {closings[row.lease.id]} times"
            assert last[row.lease.id].what == "closed", f"something came after the end: {last[row.lease.id]}"
            assert row.metadata.reason != Reason.MACHINES_LOST, f"no machine ever fails here: {self.tale(row.lease.id)}"
            assert last[row.lease.id].state == row.lease.state, (
                f"{row.lease.state} in the store, and {last[row.lease.id]}"
            )
        missing = set(range(1, self.last_seq + 1)) - self.lines.keys()
        assert not missing, f"journal lines that were never told: {sorted(missing)}"


def requests_by_lease(witness: Witness, rows: Iterable[LeaseRow]) -> Mapping[int, Submit]:
    """What was asked for, by the number of the lease that came of it."""
    return {row.lease.id: witness.asked[row.metadata.name] for row in rows}
