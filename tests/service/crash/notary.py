"""Who remembers what was signed, as it was received: what was once answered holds ever after."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leasehold.model.agreement import Standing
from leasehold.service.store.rows import AgreementRow
from leasehold.sharing.records import AgreementRecord, Revision

_ONCE_SIGNED = frozenset({Standing.SIGNED, Standing.SUSPENDED, Standing.REVOKED})


@dataclass
class Notary:
    """What was answered about agreements, by their names.

    ``signed``     for which sides somebody has signed
    ``in_force``   those that both have signed
    ``published``  those that everybody may see
    ``revoked``    those that are over
    """

    signed: set[tuple[str, str]] = field(default_factory=set)
    in_force: set[str] = field(default_factory=set)
    published: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)

    def heard(self, record: AgreementRecord) -> None:
        """An answer was received that is not an error."""
        self.signed |= {(record.name, side) for side in _sides(record.current)}
        if record.standing is not Standing.PROPOSED and record.current.is_signed:
            self.in_force.add(record.name)
        if record.published:
            self.published.add(record.name)
        if record.standing is Standing.REVOKED:
            self.revoked.add(record.name)

    def are_kept(self, rows: Iterable[AgreementRow]) -> None:
        """The agreements as they are stored: nothing that was answered is missing or undone."""
        by_name = {row.name: row for row in rows}
        for name, side in self.signed:
            assert side in json.loads(by_name[name].signatures), f"{name} was signed for the {side}"
        for name in self.in_force:
            assert by_name[name].standing in _ONCE_SIGNED, f"{name} was signed: {by_name[name]}"
        for name in self.published:
            assert by_name[name].published, f"{name} was published: {by_name[name]}"
        for name in self.revoked:
            assert by_name[name].standing == Standing.REVOKED, f"{name} was revoked: {by_name[name]}"


def _sides(revision: Revision) -> Mapping[str, object]:
    sides = {"provider": revision.provider, "consumer": revision.consumer}
    return {side: signature for side, signature in sides.items() if signature is not None}
