"""The tables about jobs, and the nodes and images for them; `leasehold.service.store.schema` has the rest."""

from sqlalchemy import Column, Index, Text
from sqlalchemy import text as sql

from leasehold.jobs.job import JobState
from leasehold.service.store.columns import (
    NUMBER,
    WHOLE,
    of_a_job,
    of_a_lease,
    table,
    text,
    text_key,
    whole,
    whole_key,
)

_FINAL = ", ".join(f"'{state}'" for state in JobState if state.is_final)

# Said to the database word for word as its indexes have it.
OF_A_JOB = sql("job_id IS NOT NULL")
OPEN_JOBS = sql(f"state NOT IN ({_FINAL})")
CLOSED_JOBS = sql(f"state IN ({_FINAL})")

# Each attempt is a lease; what ties them together, and what `leasehold.jobs.job` keeps of it, is here.
jobs = table(
    "jobs",
    whole_key("id"),
    *(text(name) for name in ("name", "consumer", "group", "state", "reason", "what")),
    whole("submitted_ms"),
    *(Column(name, WHOLE) for name in ("deadline_ms", "ended_ms")),
    *(text(name) for name in ("needs", "command", "lease_type", "backup")),
    *(Column(name, NUMBER) for name in ("reliability", "surest")),
    *(whole(name) for name in ("restarts", "restarts_used")),
    *(Column(name, WHOLE) for name in ("next_ms", "since_ms")),
    text("standby"),
    whole("delivered"),
    Column("exit_status", WHOLE),
    Column("is_foreign", WHOLE, nullable=False, server_default="0"),
)
jobs_open = Index("jobs_open", jobs.c.id, sqlite_where=OPEN_JOBS, postgresql_where=OPEN_JOBS)
jobs_consumer = Index("jobs_consumer", jobs.c.consumer, jobs.c.id)

attempts = table(
    "attempts",
    of_a_job(primary_key=True),
    whole_key("number"),
    of_a_lease(nullable=True),
    *(text(name) for name in ("site", "nodes", "image")),
    whole("is_backup"),
    *(text(name) for name in ("state", "fault", "detail")),
    Column("exit_status", WHOLE),
    whole("ordered_ms"),
    *(Column(name, WHOLE) for name in ("started_ms", "ended_ms")),
    *(text(name) for name in ("place", "came_to")),
)
attempts_lease = Index("attempts_lease", attempts.c.lease_id)
attempts_site = Index("attempts_site", attempts.c.site)

# What commands wrote: apart from the attempts, which are read more often.
outputs = table(
    "outputs",
    of_a_job(primary_key=True),
    whole_key("number"),
    text("text"),
    *(whole(name) for name in ("is_whole", "fetched_ms")),
    Column("consumer", Text, nullable=False, server_default=""),
    Column("size_bytes", WHOLE, nullable=False, server_default="0"),
)
outputs_consumer = Index(
    "outputs_consumer", outputs.c.consumer, outputs.c.fetched_ms, outputs.c.job_id, outputs.c.size_bytes
)

# What nodes were last seen to be like, and how often they failed.
nodes = table(
    "nodes",
    text_key("name"),
    text("site"),
    *(whole(name) for name in ("cores", "memory_mib", "disk_mib")),
    *(whole(name) for name in ("free_cores", "free_memory_mib", "free_disk_mib")),
    *(whole(name) for name in ("cpu_mhz", "bytes_per_s")),
    text("software"),
    *(whole(name) for name in ("is_host", "runs")),
    *(text(name) for name in ("problem", "fault")),
    *(whole(name) for name in ("seen_ms", "first_ms", "failures")),
    Column("failed_ms", WHOLE),
    Column("charged", NUMBER, nullable=False),
    *(whole(name) for name in ("watched_ms", "well_ms")),
)

# Images that sites have, those that are being built, and those that could not be.
images = table(
    "images",
    text_key("name"),
    text_key("site"),
    *(text(name) for name in ("software", "packages")),
    *(whole(name) for name in ("size_bytes", "least_memory_mib")),
    *(text(name) for name in ("state", "problem")),
    *(whole(name) for name in ("since_ms", "seen_ms")),
)

job_answers = table(
    "job_answers",
    text_key("consumer"),
    text_key("key"),
    text("request_hash"),
    of_a_job(),
    Column("created_ms", WHOLE, nullable=False, index=True),
)
