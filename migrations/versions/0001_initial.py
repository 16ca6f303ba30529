"""The initial schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


# Rows of these tables are written once: the database refuses to change them.
_WRITTEN_ONCE = {"audit_log": "update", "credit_entries": "update or delete"}
_REFUSE = """
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are written once', tg_table_name using errcode = 'restrict_violation';
end $$
"""


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("email", name="uq_accounts_email"),
    )
    op.create_table(
        "lookup_answers",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.Integer(), nullable=False),
        sa.Column("query_hash", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("fetched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stale_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("source", "parser_version", "query_hash", name="pk_lookup_answers"),
    )
    op.create_index("ix_lookup_answers_stale_until", "lookup_answers", ["stale_until"], unique=False)
    op.create_table(
        "provider_states",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Float(), nullable=False),
        sa.Column("refilled_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("blocked_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("blocked_as", sa.Text(), nullable=True),
        sa.Column("last_success", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_rate", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("source", name="pk_provider_states"),
        postgresql_with={"fillfactor": 50},
        prefixes=["unlogged"],
    )
    op.create_table(
        "rate_windows",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("admitted", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", "subject", name="pk_rate_windows"),
        postgresql_with={"fillfactor": 50},
        prefixes=["unlogged"],
    )
    op.create_table(
        "suppressions",
        sa.Column("identifier_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("identifier_hash", name="pk_suppressions"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("actor_id", sa.Uuid(), nullable=True),
        sa.Column("actor_name", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target_kind", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Uuid(), nullable=True),
        sa.Column("target_name", sa.Text(), nullable=True),
        sa.Column("changes", sa.JSON(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("ip", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_audit_log_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_account_id_id", "audit_log", ["account_id", "id"], unique=False)
    op.create_index(
        "ix_audit_log_target", "audit_log", ["account_id", "target_kind", "target_id", "id"], unique=False
    )
    op.create_table(
        "automations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("ingest_token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("ingest_token_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("status in ('active', 'paused', 'draft')", name="ck_automations_status"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_automations_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_automations"),
        sa.UniqueConstraint("ingest_token_hash", name="uq_automations_ingest_token_hash"),
    )
    op.create_index("ix_automations_account_id_id", "automations", ["account_id", "id"], unique=False)
    op.create_table(
        "credit_balances",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("balance", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("entries", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("low_balance_threshold", sa.BigInteger(), server_default="100", nullable=False),
        sa.Column("topup_enabled", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("topup_threshold", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("topup_amount", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("topup_monthly_cap", sa.BigInteger(), nullable=True),
        sa.Column("topup_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("topup_month", sa.Text(), nullable=True),
        sa.Column("topup_month_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("balance >= 0", name="ck_credit_balances_balance_not_negative"),
        sa.CheckConstraint("held >= 0", name="ck_credit_balances_held_not_negative"),
        sa.CheckConstraint("used >= 0", name="ck_credit_balances_used_not_negative"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_credit_balances_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name="pk_credit_balances"),
        postgresql_with={"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01},
    )
    op.create_index(
        "ix_credit_balances_topup",
        "credit_balances",
        ["account_id"],
        unique=False,
        postgresql_where="topup_enabled",
    )
    op.create_table(
        "credit_entries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("balance_after", sa.BigInteger(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "case when kind in ('hold', 'charge') then amount <= 0 else amount >= 0 end",
            name="ck_credit_entries_sign",
        ),
        sa.CheckConstraint(
            "kind in ('grant', 'hold', 'settle', 'release', 'charge', 'refund', 'topup')",
            name="ck_credit_entries_kind",
        ),
        sa.CheckConstraint("balance_after >= 0", name="ck_credit_entries_balance_after_not_negative"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_credit_entries_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_credit_entries"),
        sa.UniqueConstraint("account_id", "number", name="uq_credit_entries_account_id_number"),
        sa.UniqueConstraint("kind", "reference", name="uq_credit_entries_kind_reference"),
    )
    op.create_table(
        "credit_holds",
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("amount >= 0", name="ck_credit_holds_amount_not_negative"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_credit_holds_account_id_accounts"),
        sa.PrimaryKeyConstraint("reference", name="pk_credit_holds"),
    )
    op.create_index(
        "ix_credit_holds_open",
        "credit_holds",
        ["account_id"],
        unique=False,
        postgresql_where="closed_at is null",
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("holder", sa.Uuid(), nullable=False),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name="fk_idempotency_keys_account_id_accounts",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"], unique=False)
    op.create_index(
        "uq_idempotency_keys_request",
        "idempotency_keys",
        ["account_id", "key", "method", "path"],
        unique=True,
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("preview", sa.Text(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("total_requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("credits_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_keys_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("hash", name="uq_keys_hash"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("ix_keys_account_id_id", "keys", ["account_id", "id"], unique=False)
    op.create_table(
        "paid_blocks",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("query_hash", sa.LargeBinary(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("paid_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_paid_blocks_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", "kind", "query_hash", "block", name="pk_paid_blocks"),
    )
    op.create_index("ix_paid_blocks_paid_at", "paid_blocks", ["paid_at"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("ip", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sessions_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_account_id", "sessions", ["account_id"], unique=False)
    op.create_table(
        "tenants",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_tenants_account_id_accounts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account_id", name="pk_tenants"),
    )
    op.create_table(
        "automation_versions",
        sa.Column("automation_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("reads_request", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["automation_id"],
            ["automations.id"],
            name="fk_automation_versions_automation_id_automations",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("automation_id", "version", name="pk_automation_versions"),
    )
    op.create_table(
        "lanes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("automation_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("runs_total", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_lanes_account_id_accounts", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["automation_id"],
            ["automations.id"],
            name="fk_lanes_automation_id_automations",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_lanes"),
        sa.UniqueConstraint(
            "automation_id", "version", "priority", name="uq_lanes_automation_id_version_priority"
        ),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("automation_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("lane_id", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("input", sa.JSON(), nullable=True),
        sa.Column("request", sa.JSON(), nullable=True),
        sa.Column("input_bytes", sa.Integer(), nullable=False),
        sa.Column("output", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("dedupe_key", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("pauses", sa.JSON(), nullable=True),
        sa.Column("wake_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("credits_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("progressed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status in ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')",
            name="ck_runs_status",
        ),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_runs_account_id_accounts", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["automation_id"],
            ["automations.id"],
            name="fk_runs_automation_id_automations",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["lane_id"], ["lanes.id"], name="fk_runs_lane_id_lanes", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        postgresql_with={"autovacuum_vacuum_scale_factor": 0.01, "fillfactor": 80},
    )
    op.create_index("ix_runs_account_id_id", "runs", ["account_id", "id"], unique=False)
    op.create_index(
        "ix_runs_at_work", "runs", ["account_id"], unique=False, postgresql_where="status = 'running'"
    )
    op.create_index("ix_runs_automation_id_id", "runs", ["automation_id", "id"], unique=False)
    op.create_index(
        "ix_runs_batch",
        "runs",
        ["batch_id"],
        unique=False,
        postgresql_where="status in ('running', 'waiting')",
    )
    op.create_index(
        "ix_runs_cancel",
        "runs",
        ["cancel_requested_at"],
        unique=False,
        postgresql_where="cancel_requested_at is not null and completed_at is null",
    )
    op.create_index(
        "ix_runs_waiting_in_lane",
        "runs",
        ["lane_id", "id"],
        unique=False,
        postgresql_where="status = 'queued'",
    )
    op.create_index("ix_runs_wake", "runs", ["wake_at"], unique=False, postgresql_where="status = 'waiting'")
    op.create_index(
        "uq_runs_dedupe",
        "runs",
        ["automation_id", "dedupe_key"],
        unique=True,
        postgresql_where="dedupe_key is not null",
    )
    op.create_table(
        "run_steps",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("input", sa.JSON(), nullable=True),
        sa.Column("output", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("credits_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_steps_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step_id", name="pk_run_steps"),
    )
    op.execute(_REFUSE)
    for table, events in _WRITTEN_ONCE.items():
        op.execute(
            f"create trigger written_once before {events} on {table}"
            " for each row execute function refuse_change()"
        )


def downgrade() -> None:
    op.drop_table("run_steps")
    op.drop_index("uq_runs_dedupe", table_name="runs", postgresql_where="dedupe_key is not null")
    op.drop_index("ix_runs_wake", table_name="runs", postgresql_where="status = 'waiting'")
    op.drop_index("ix_runs_waiting_in_lane", table_name="runs", postgresql_where="status = 'queued'")
    op.drop_index(
        "ix_runs_cancel",
        table_name="runs",
        postgresql_where="cancel_requested_at is not null and completed_at is null",
    )
    op.drop_index("ix_runs_batch", table_name="runs", postgresql_where="status in ('running', 'waiting')")
    op.drop_index("ix_runs_automation_id_id", table_name="runs")
    op.drop_index("ix_runs_at_work", table_name="runs", postgresql_where="status = 'running'")
    op.drop_index("ix_runs_account_id_id", table_name="runs")
    op.drop_table("runs")
    op.drop_table("lanes")
    op.drop_table("automation_versions")
    op.drop_table("tenants")
    op.drop_index("ix_sessions_account_id", table_name="sessions")
    op.drop_table("sessions")
    op.drop_index("ix_paid_blocks_paid_at", table_name="paid_blocks")
    op.drop_table("paid_blocks")
    op.drop_index("ix_keys_account_id_id", table_name="keys")
    op.drop_table("keys")
    op.drop_index("uq_idempotency_keys_request", table_name="idempotency_keys")
    op.drop_index("ix_idempotency_keys_expires_at", table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
    op.drop_index("ix_credit_holds_open", table_name="credit_holds", postgresql_where="closed_at is null")
    op.drop_table("credit_holds")
    op.drop_table("credit_entries")
    op.drop_index("ix_credit_balances_topup", table_name="credit_balances", postgresql_where="topup_enabled")
    op.drop_table("credit_balances")
    op.drop_index("ix_automations_account_id_id", table_name="automations")
    op.drop_table("automations")
    op.drop_index("ix_audit_log_target", table_name="audit_log")
    op.drop_index("ix_audit_log_account_id_id", table_name="audit_log")
    op.drop_table("audit_log")
    op.drop_table("workers")
    op.drop_table("suppressions")
    op.drop_table("rate_windows")
    op.drop_table("provider_states")
    op.drop_index("ix_lookup_answers_stale_until", table_name="lookup_answers")
    op.drop_table("lookup_answers")
    op.drop_table("accounts")
    op.execute("drop function refuse_change()")
