"""The statements that write, made once for each kind of database.

They run through the driver with rows as they are: compiling and checking them anew for each of thousands of
rows a second would cost more than writing them.
"""

from collections.abc import Iterable

from sqlalchemy import Dialect, Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement

from leasehold.service.store import job_schema, schema


class Statements:
    """SQL text for the driver of one dialect; every parameter is named like its column."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.save_lease = self._upsert(schema.leases)
        self.add_journal = self._insert(schema.journal)
        self.add_order = self._insert(schema.orders, without=("number",))
        self.set_order = self._text(
            "UPDATE orders SET status = :status, attempts = :attempts, next_try_ms = :next_try_ms,"
            " problem = :problem WHERE id = :id"
        )
        self.add_answer = self._insert(schema.answers)
        self.set_memory = self._upsert(schema.memories)
        self.save_site = self._upsert(schema.sites)
        self.save_peer = self._upsert(schema.peers)
        self.drop_peer = self._text("DELETE FROM peers WHERE name = :name")
        self.save_joint = self._upsert(schema.joints)
        self.save_agreement = self._upsert(schema.agreements)
        self.save_penalty = self._upsert(schema.penalties)
        self.add_usage = self._insert(schema.usage)
        self.save_job = self._upsert(job_schema.jobs)
        self.save_attempt = self._upsert(job_schema.attempts)
        self.add_output = self._insert(job_schema.outputs)
        self.add_job_answer = self._insert(job_schema.job_answers)
        self.save_node = self._upsert(job_schema.nodes)
        self.see_node = self._text(
            "UPDATE nodes SET free_cores = :free_cores, free_memory_mib = :free_memory_mib,"
            " free_disk_mib = :free_disk_mib, seen_ms = :seen_ms, charged = :charged,"
            " watched_ms = :watched_ms, well_ms = :well_ms WHERE name = :name"
        )
        self.save_image = self._upsert(job_schema.images)
        self.drop_image = self._text("DELETE FROM images WHERE name = :name AND site = :site")
        self.add_letter = self._insert(schema.letters)
        self.drop_letters = self._text(
            "DELETE FROM letters WHERE correspondent = :correspondent AND seq <= :seq"
        )
        self.drop_all_letters = self._text("DELETE FROM letters WHERE correspondent = :correspondent")
        self.drop_mail = self._text("DELETE FROM mail WHERE correspondent = :correspondent")
        self.set_sent = self._text(
            "INSERT INTO mail (correspondent, last_sent_seq, last_received_seq)"
            " VALUES (:correspondent, :seq, 0)"
            " ON CONFLICT (correspondent) DO UPDATE SET last_sent_seq = excluded.last_sent_seq"
        )
        self.set_received = self._text(
            "INSERT INTO mail (correspondent, last_sent_seq, last_received_seq)"
            " VALUES (:correspondent, 0, :seq)"
            " ON CONFLICT (correspondent) DO UPDATE SET last_received_seq = excluded.last_received_seq"
        )

    def _insert(self, table: Table, without: Iterable[str] = ()) -> str:
        given = [column.name for column in table.columns if column.name not in without]
        return self._compiled(table.insert().inline(), given)

    def _upsert(self, table: Table) -> str:
        """Insert a row, or put it in the place of the one with its key."""
        insert = (postgresql if self._dialect.name == "postgresql" else sqlite).insert(table)
        rest = {
            column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key
        }
        return self._compiled(
            insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=rest)
        )

    def _text(self, words: str) -> str:
        return self._compiled(text(words))

    def _compiled(self, statement: ClauseElement, columns: list[str] | None = None) -> str:
        return str(statement.compile(dialect=self._dialect, column_keys=columns))
