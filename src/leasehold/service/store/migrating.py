"""Which schema a store has, and how it gets the one that this program works with.

The steps are in ``migrations/versions``; Alembic runs them, and needs no configuration file.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from leasehold.model.errors import InputError

_FOLDER = Path(__file__).parent / "migrations"


def current_revision(connection: Connection) -> str | None:
    """The schema's revision; None where nothing is there yet."""
    return MigrationContext.configure(connection).get_current_revision()


def needs_migration(connection: Connection) -> bool:
    """Whether the schema is older than this program; InputError where it is newer."""
    current = current_revision(connection)
    refuse_newer(current, connection.engine.url)
    return current != _scripts().get_current_head()


def refuse_newer(revision: str | None, where: object) -> None:
    """InputError where the program does not know the revision of the schema at ``where``."""
    scripts = _scripts()
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        known = scripts.get_current_head()
        raise InputError(where, None, f"has schema {revision}, newer than this program's ({known}): update it")


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the schema up to a revision, this program's by default, within the connection's transaction."""
    command.upgrade(_config(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Bring the schema down to a revision, "base" for nothing at all; what is only in newer ones is lost."""
    command.downgrade(_config(connection), revision)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config
