"""Whatever can be read from a store, from any thread, while it is being written to."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy import func, select, text, tuple_

from leasehold.service.store import schema
from leasehold.service.store.conditions import leases_that, lines_that, used_by
from leasehold.service.store.filters import JournalFilter, LeaseFilter, UsageFilter
from leasehold.service.store.job_reading import JobReading
from leasehold.service.store.querying import KEYS_AT_ONCE, within
from leasehold.service.store.rows import (
    AgreementRow,
    AnswerRow,
    JointRow,
    JournalRow,
    LeaseRow,
    LetterRow,
    OrderRow,
    PeerRow,
    PenaltyRow,
    SiteRow,
    TokenRow,
    UsageRow,
)
from leasehold.service.store.schema import LIVE, OF_A_JOINT, OPEN


class Reading(JobReading):
    """Reads what is committed; every call sees one state of the store. Raises StoreUnavailable."""

    # Leases

    def live_leases(self) -> list[LeaseRow]:
        """All leases that are not in a final state, by id."""
        return cast(
            "list[LeaseRow]", self._rows(select(schema.leases).where(LIVE).order_by(schema.leases.c.id))
        )

    def lease(self, lease_id: int) -> LeaseRow | None:
        """One lease; None where there is none of that number."""
        return cast(
            "LeaseRow | None", self._row(select(schema.leases).where(schema.leases.c.id == within(lease_id)))
        )

    def leases(self, which: LeaseFilter, limit: int, before_id: int | None = None) -> list[LeaseRow]:
        """The newest leases first, ``limit`` of them; ``before_id`` goes on where a page ended."""
        page = (
            select(schema.leases).where(leases_that(which)).order_by(schema.leases.c.id.desc()).limit(limit)
        )
        if before_id is not None:
            page = page.where(schema.leases.c.id < within(before_id))
        return cast("list[LeaseRow]", self._rows(page))

    def highest_lease_id(self) -> int:
        """The highest number that a lease ever had; 0 before the first."""
        return self._number(select(func.max(schema.leases.c.id)))

    def count_by_state(self) -> dict[tuple[str, str], int]:
        """How many live leases there are by (site, state); "" is the site of those without."""
        site, state = schema.leases.c.site, schema.leases.c.state
        counted = select(site, state, func.count().label("number")).where(LIVE).group_by(site, state)
        return {(row.site, row.state): row.number for row in self._fetch(counted)}

    def held_vms(self) -> dict[str, int]:
        """How many VMs leases hold, by site."""
        site, vms = schema.leases.c.site, schema.leases.c.vms
        holding = LIVE & (schema.leases.c.held_since_ms >= 0)
        summed = select(site, func.sum(vms).label("vms")).where(holding).group_by(site)
        return {row.site: int(row.vms) for row in self._fetch(summed)}

    # The journal

    def journal(
        self,
        after_seq: int,
        limit: int,
        *,
        lease_id: int | None = None,
        which: JournalFilter | None = None,
    ) -> list[JournalRow]:
        """The lines later than ``after_seq``, ``limit`` of them, in order; of one lease where it is given."""
        lines = (
            select(schema.journal)
            .where(schema.journal.c.seq > within(after_seq))
            .order_by(schema.journal.c.seq)
            .limit(limit)
        )
        if lease_id is not None:
            lines = lines.where(schema.journal.c.lease_id == within(lease_id))
        if which is not None:
            lines = lines.where(lines_that(which))
        return cast("list[JournalRow]", self._rows(lines))

    def tail(self, lease_id: int, count: int) -> list[JournalRow]:
        """The last ``count`` lines about a lease, in order."""
        lines = select(schema.journal).where(schema.journal.c.lease_id == within(lease_id))
        newest = self._rows(lines.order_by(schema.journal.c.seq.desc()).limit(count))
        return cast("list[JournalRow]", newest[::-1])

    def last_seq(self) -> int:
        """The ``seq`` of the journal's last line; 0 before the first."""
        return self._number(select(func.max(schema.journal.c.seq)))

    # What the engine goes on with

    def open_orders(self) -> list[OrderRow]:
        """The orders that are pending or taken, in the order of their creation."""
        columns = [column for column in schema.orders.columns if column.name != "number"]
        return cast(
            "list[OrderRow]", self._rows(select(*columns).where(OPEN).order_by(schema.orders.c.number))
        )

    def answers(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], AnswerRow]:
        """The answers that were given before, by (consumer, Idempotency-Key)."""
        found = [
            answer
            for first in range(0, len(keys), KEYS_AT_ONCE)
            for answer in self._answers(keys[first : first + KEYS_AT_ONCE])
        ]
        return {(answer["consumer"], answer["key"]): answer for answer in found}

    def _answers(self, keys: Sequence[tuple[str, str]]) -> list[AnswerRow]:
        key = tuple_(schema.answers.c.consumer, schema.answers.c.key)
        return cast("list[AnswerRow]", self._rows(select(schema.answers).where(key.in_(keys))))

    def memories(self) -> dict[str, str]:
        """JSON texts by the names under which they were kept."""
        kept = self._fetch(select(schema.memories.c.name, schema.memories.c.text))
        return {row.name: row.text for row in kept}

    def sites(self) -> list[SiteRow]:
        """What is remembered of sites, by name."""
        return cast("list[SiteRow]", self._rows(select(schema.sites).order_by(schema.sites.c.name)))

    def peers(self) -> list[PeerRow]:
        """What was agreed with peers, by name."""
        return cast("list[PeerRow]", self._rows(select(schema.peers).order_by(schema.peers.c.name)))

    # Joint requests

    def open_joints(self) -> list[JointRow]:
        """All joint requests that are not over, by number."""
        still_open = select(schema.joints).where(schema.joints.c.end_ms.is_(None))
        return cast("list[JointRow]", self._rows(still_open.order_by(schema.joints.c.id)))

    def joint(self, joint_id: int) -> JointRow | None:
        """One joint request; None where there is none of that number."""
        return cast(
            "JointRow | None", self._row(select(schema.joints).where(schema.joints.c.id == within(joint_id)))
        )

    def joints(self, which: LeaseFilter, limit: int, before_id: int | None = None) -> list[JointRow]:
        """The newest joint requests first of which a lease is asked for; pages as those of `leases`."""
        with_such = select(schema.leases.c.joint_id).where(OF_A_JOINT, leases_that(which))
        page = select(schema.joints).where(schema.joints.c.id.in_(with_such))
        if before_id is not None:
            page = page.where(schema.joints.c.id < within(before_id))
        return cast("list[JointRow]", self._rows(page.order_by(schema.joints.c.id.desc()).limit(limit)))

    def components(self, joint_id: int) -> list[LeaseRow]:
        """All leases that a joint request ever had, by number."""
        of_it = select(schema.leases).where(schema.leases.c.joint_id == within(joint_id))
        return cast("list[LeaseRow]", self._rows(of_it.order_by(schema.leases.c.id)))

    def highest_joint_id(self) -> int:
        """The highest number that a joint request ever had; 0 before the first."""
        return self._number(select(func.max(schema.joints.c.id)))

    # Sharing

    def agreements(self) -> list[AgreementRow]:
        """All agreements that there are, or ever were, by name."""
        everything = select(schema.agreements).order_by(schema.agreements.c.name)
        return cast("list[AgreementRow]", self._rows(everything))

    def penalties(self) -> list[PenaltyRow]:
        """All punishments that were ever imposed, oldest first."""
        return cast("list[PenaltyRow]", self._rows(select(schema.penalties).order_by(schema.penalties.c.id)))

    def usage(self, which: UsageFilter) -> list[UsageRow]:
        """The times in which leases held machines that lie in what is asked for at least in part."""
        asked = select(schema.usage).where(used_by(which))
        return cast(
            "list[UsageRow]", self._rows(asked.order_by(schema.usage.c.begin_ms, schema.usage.c.lease_id))
        )

    # Letters

    def letters(self, correspondent: str, after_seq: int, limit: int) -> list[LetterRow]:
        """Letters that were not acknowledged yet, later than ``after_seq``, in order."""
        to_them = select(schema.letters).where(
            schema.letters.c.correspondent == correspondent, schema.letters.c.seq > within(after_seq)
        )
        return cast("list[LetterRow]", self._rows(to_them.order_by(schema.letters.c.seq).limit(limit)))

    def mail_state(self, correspondent: str) -> tuple[int, int]:
        """The numbers of the last letter to a correspondent and of the last one from there; 0 for none."""
        state = self._row(select(schema.mail).where(schema.mail.c.correspondent == correspondent))
        return (0, 0) if state is None else (state["last_sent_seq"], state["last_received_seq"])

    # Tokens

    def token_by_hash(self, hash_: str) -> TokenRow | None:
        """The token whose secret has this hash, revoked and expired ones included."""
        return cast("TokenRow | None", self._row(select(schema.tokens).where(schema.tokens.c.hash == hash_)))

    def tokens(self) -> list[TokenRow]:
        """All tokens ever given out, oldest first."""
        return cast(
            "list[TokenRow]",
            self._rows(select(schema.tokens).order_by(schema.tokens.c.created_ms, schema.tokens.c.id)),
        )

    def ping(self) -> None:
        """Return when the store answers; StoreUnavailable where it does not."""
        self._fetch(select(text("1")))
