"""How Alembic runs the migrations: on the connection that it is handed, within its transaction."""

from alembic import context

from leasehold.service.store.rows import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table by recreating it
)
with context.begin_transaction():
    context.run_migrations()
