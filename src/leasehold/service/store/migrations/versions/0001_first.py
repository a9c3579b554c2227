"""The first schema, as SQL beside this file: what is there must not change with the program."""

from pathlib import Path

from alembic import op
from sqlalchemy import inspect

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables and indexes."""
    connection = op.get_bind()
    script = Path(__file__).with_name(f"{revision}_{connection.dialect.name}.sql")
    for statement in script.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)


def downgrade() -> None:
    """Drop all tables, those first that refer to others."""
    names = inspect(op.get_bind()).get_sorted_table_and_fkc_names()
    for name, _ in reversed(names):
        if name and name != "alembic_version":
            op.drop_table(name)
