"""Each table has `account_id` in its primary key, so that accounts can be moved between databases.

docs/decisions/sharding.md says why. The lists are exact: a table that gets the key leaves its list.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Table
from sqlmodel import SQLModel

from migrations.upgrade import load_tables

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "decisions" / "sharding.md").read_text()

# Rows that are of no account, and why.
GLOBAL = {
    "accounts": "its id is the account",
    "builds": "the builds whose workers take work from this database",
    "delivery_batches": "a batch has deliveries of many accounts, and is gone when they are done",
    "figures": "totals over all accounts",
    "former_call_ids": "one row, for the whole database",
    "last_backup": "one row, for the whole database",
    "lookup_answers": "answers of sources serve all accounts",
    "processes": "the processes at this database",
    "provider_states": "whether a source fails is nobody's own",
    "rate_windows": "counts accounts, workflows, addresses and e-mails, for a window's time",
    "root_key_canary": "one row, for the whole database",
    "shifts": "of worker processes, which serve all accounts",
    "source_windows": "a source's quota is shared by all accounts",
    "suppressions": "a person's wish holds for all accounts",
    "workers": "the workers at this database",
    "write_probe": "one row, for the whole database",
}
# Today's exceptions. Those with a column of their own need another key.
WITH_COLUMN = {
    "audit_log", "automation_children", "automation_schedules", "automations", "credit_entries",
    "credit_holds", "deliveries", "delivery_work", "endpoints", "events", "idempotency_keys", "jobs", "keys",
    "lists", "monitor_runs", "monitors", "run_counts", "run_work", "runs", "sessions", "uploads",
}  # fmt: skip
# Those without: the column that leads to their account, and the table that it leads to.
WITHOUT_COLUMN = {
    "automation_versions": ("automation_id", "automations"),
    "delivery_attempts": ("delivery_id", "deliveries"),
    "former_ingest_tokens": ("automation_id", "automations"),
    "gates": ("workflow_id", "automations"),
    "job_answers": ("job_id", "jobs"),
    "job_chunks": ("job_id", "jobs"),
    "job_rows": ("job_id", "jobs"),
    "list_targets": ("list_id", "lists"),
    "monitor_baselines": ("monitor_id", "monitors"),
    "monitor_results": ("monitor_id", "monitors"),
    "monitor_run_chunks": ("run_id", "monitor_runs"),
    "monitor_snapshots": ("monitor_id", "monitors"),
    "monitor_sources": ("monitor_id", "monitors"),
    "monitor_targets": ("monitor_id", "monitors"),
    "remembered_keys": ("automation_id", "automations"),
    "run_answers": ("run_id", "runs"),
    "run_dedupe_keys": ("automation_id", "automations"),
    "run_prompts": ("run_id", "runs"),
    "run_starts": ("automation_id", "automations"),
    "run_step_items": ("run_id", "runs"),
    "run_steps": ("run_id", "runs"),
    "versions_aside": ("automation_id", "automations"),
}

load_tables()
TABLES: dict[str, Table] = dict(SQLModel.metadata.tables)
WITH_KEY = {name for name, table in TABLES.items() if "account_id" in table.primary_key.columns}


def test_each_table_has_its_account_in_its_key_or_is_a_known_exception() -> None:
    known = GLOBAL.keys() | WITH_COLUMN | WITHOUT_COLUMN.keys()
    assert TABLES.keys() - WITH_KEY - known == set(), "a new table needs account_id in its key, or a reason"
    assert known - (TABLES.keys() - WITH_KEY) == set(), "these are no exceptions any more: take them out"


def test_only_tables_with_a_column_for_their_account_lack_nothing_but_the_key() -> None:
    assert {name for name in TABLES.keys() - WITH_KEY if "account_id" in TABLES[name].columns} == WITH_COLUMN


@pytest.mark.parametrize("name", WITHOUT_COLUMN)
def test_a_table_without_the_column_leads_to_one_that_has_it(name: str) -> None:
    column, parent = WITHOUT_COLUMN[name]
    assert column in TABLES[name].columns and parent in WITH_COLUMN


def test_the_page_names_each_table() -> None:
    assert [name for name in TABLES if name != "accounts" and f"`{name}`" not in PAGE] == []
