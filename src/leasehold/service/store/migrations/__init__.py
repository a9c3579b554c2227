"""The steps from one schema of the store to the next; Alembic finds and runs them.

A step that was released is never changed: stores out there have made it.
"""
