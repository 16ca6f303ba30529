"""Alembic's entry: runs the migrations on the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

from migrations.upgrade import load_tables, record_works_from
from models.runs.history import is_partition

load_tables()
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    compare_type=True,
    compare_server_default=True,
    version_table="schema_revision",
    # Locks are held no longer than one migration.
    transaction_per_migration=True,
    on_version_apply=record_works_from,
    include_name=lambda name, type_, _: (
        type_ != "table" or (name != "alembic_version" and not is_partition(name or ""))
    ),
)
with context.begin_transaction():
    context.run_migrations()
