"""Alembic's entry: runs the migrations on the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

from migrations.upgrade import load_tables
from models.runs.history import is_partition

load_tables()
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    compare_type=True,
    compare_server_default=True,
    include_name=lambda name, type_, _: not (type_ == "table" and is_partition(name or "")),
)
with context.begin_transaction():
    context.run_migrations()
