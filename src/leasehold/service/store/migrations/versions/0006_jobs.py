"""Jobs with needs: what they are, their attempts and what those wrote; nodes and images.

A store without them has none, and its leases are attempts of none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NUMBER: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
_OF_A_JOB = sa.text("job_id IS NOT NULL")
_OPEN = sa.text("state NOT IN ('completed', 'failed', 'refused', 'cancelled')")


def upgrade() -> None:
    """Make the tables and the columns."""
    _make_jobs()
    _make_attempts()
    _make_outputs()
    _make_answers()
    _make_nodes()
    _make_images()
    op.add_column("leases", _maybe_whole("job_id"))
    op.add_column("leases", sa.Column("wishes", sa.Text(), nullable=False, server_default=""))
    op.add_column("journal", _maybe_whole("job_id"))
    op.create_index(
        "journal_job", "journal", ["job_id", "seq"], sqlite_where=_OF_A_JOB, postgresql_where=_OF_A_JOB
    )


def downgrade() -> None:
    """Drop them; the leases of jobs go on as any others, and nobody waits for their results."""
    op.drop_index("journal_job", "journal")
    op.drop_column("journal", "job_id")
    for name in ("wishes", "job_id"):
        op.drop_column("leases", name)
    for table in ("images", "nodes", "job_answers", "outputs", "attempts", "jobs"):
        op.drop_table(table)


def _make_jobs() -> None:
    op.create_table(
        "jobs",
        _whole("id"),
        *(_text(name) for name in ("name", "consumer", "group", "state", "reason", "what")),
        _whole("submitted_ms"),
        *(_maybe_whole(name) for name in ("deadline_ms", "ended_ms")),
        *(_text(name) for name in ("needs", "command", "lease_type", "backup")),
        *(sa.Column(name, _NUMBER) for name in ("reliability", "surest")),
        *(_whole(name) for name in ("restarts", "restarts_used")),
        *(_maybe_whole(name) for name in ("next_ms", "since_ms")),
        _text("standby"),
        _whole("delivered"),
        _maybe_whole("exit_status"),
        sa.PrimaryKeyConstraint("id", name="jobs_key"),
        sqlite_strict=True,
    )
    op.create_index("jobs_open", "jobs", ["id"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.create_index("jobs_consumer", "jobs", ["consumer", "id"])


def _make_attempts() -> None:
    op.create_table(
        "attempts",
        *(_whole(name) for name in ("job_id", "number")),
        _maybe_whole("lease_id"),
        *(_text(name) for name in ("site", "nodes", "image")),
        _whole("is_backup"),
        *(_text(name) for name in ("state", "fault", "detail")),
        _maybe_whole("exit_status"),
        _whole("ordered_ms"),
        *(_maybe_whole(name) for name in ("started_ms", "ended_ms")),
        *(_text(name) for name in ("place", "came_to")),
        sa.PrimaryKeyConstraint("job_id", "number", name="attempts_key"),
        _of_a_job("attempts"),
        sa.ForeignKeyConstraint(
            ["lease_id"],
            ["leases.id"],
            name="attempts_lease_id_known",
            deferrable=True,
            initially="DEFERRED",
        ),
        sqlite_strict=True,
    )
    op.create_index("attempts_lease", "attempts", ["lease_id"])
    op.create_index("attempts_site", "attempts", ["site"])


def _make_outputs() -> None:
    op.create_table(
        "outputs",
        *(_whole(name) for name in ("job_id", "number")),
        _text("text"),
        *(_whole(name) for name in ("is_whole", "fetched_ms")),
        sa.PrimaryKeyConstraint("job_id", "number", name="outputs_key"),
        _of_a_job("outputs"),
        sqlite_strict=True,
    )


def _make_answers() -> None:
    op.create_table(
        "job_answers",
        *(_text(name) for name in ("consumer", "key", "request_hash")),
        *(_whole(name) for name in ("job_id", "created_ms")),
        sa.PrimaryKeyConstraint("consumer", "key", name="job_answers_key"),
        _of_a_job("job_answers"),
        sqlite_strict=True,
    )
    op.create_index("job_answers_created_ms", "job_answers", ["created_ms"])


def _make_nodes() -> None:
    op.create_table(
        "nodes",
        *(_text(name) for name in ("name", "site")),
        *(_whole(name) for name in ("cores", "memory_mib", "disk_mib")),
        *(_whole(name) for name in ("free_cores", "free_memory_mib", "free_disk_mib")),
        *(_whole(name) for name in ("cpu_mhz", "bytes_per_s")),
        _text("software"),
        *(_whole(name) for name in ("is_host", "runs")),
        *(_text(name) for name in ("problem", "fault")),
        *(_whole(name) for name in ("seen_ms", "first_ms", "failures")),
        _maybe_whole("failed_ms"),
        sa.PrimaryKeyConstraint("name", name="nodes_key"),
        sqlite_strict=True,
    )


def _make_images() -> None:
    op.create_table(
        "images",
        *(_text(name) for name in ("name", "site", "software", "packages")),
        *(_whole(name) for name in ("size_bytes", "least_memory_mib")),
        *(_text(name) for name in ("state", "problem")),
        *(_whole(name) for name in ("since_ms", "seen_ms")),
        sa.PrimaryKeyConstraint("name", "site", name="images_key"),
        sqlite_strict=True,
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, _WHOLE, nullable=False, autoincrement=False)


def _maybe_whole(name: str) -> sa.Column[int]:
    return sa.Column(name, _WHOLE)


def _of_a_job(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["job_id"],
        ["jobs.id"],
        name=f"{table}_job_id_known",
        deferrable=True,
        initially="DEFERRED",
    )
