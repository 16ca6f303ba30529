"""The database schema, step by step (Alembic)."""
