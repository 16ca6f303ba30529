"""Conversations with the assistant, its approvals, and the consent of an account."""

from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

works_from = "0043"
locks = {"accounts": "ShareRowExclusiveLock"}


def upgrade() -> None:
    op.execute(
        """
        create table chat_consents (
          account_id uuid not null
            constraint fk_chat_consents_account_id_accounts references accounts (id) on delete cascade,
          host text not null, agreed_by text not null, agreed_at timestamptz not null,
          constraint pk_chat_consents primary key (account_id)
        )
        """
    )
    op.execute(
        """
        create table chat_conversations (
          account_id uuid not null
            constraint fk_chat_conversations_account_id_accounts references accounts (id) on delete cascade,
          id uuid not null,
          sealed bytea not null,
          credit_budget integer not null, credits_used integer not null, tainted boolean not null,
          created_at timestamptz not null, updated_at timestamptz not null,
          constraint pk_chat_conversations primary key (account_id, id)
        ) with (fillfactor = 80)
        """
    )
    op.execute("create index ix_chat_conversations_updated_at on chat_conversations (updated_at)")
    op.execute(
        """
        create table chat_messages (
          account_id uuid not null, id uuid not null, conversation_id uuid not null,
          sealed bytea not null,
          status text not null, reason text,
          lease_id uuid not null, leased_until timestamptz not null,
          requests integer not null, tool_calls integer not null, tokens integer not null,
          credits integer not null,
          created_at timestamptz not null, completed_at timestamptz,
          constraint pk_chat_messages primary key (account_id, id),
          constraint fk_chat_messages_account_id_chat_conversations
            foreign key (account_id, conversation_id) references chat_conversations (account_id, id)
            on delete cascade
        ) with (fillfactor = 80)
        """
    )
    op.execute(
        "create index ix_chat_messages_conversation on chat_messages (account_id, conversation_id, id)"
    )
    op.execute(
        """
        create table chat_events (
          account_id uuid not null, message_id uuid not null, number integer not null,
          kind text not null, sealed bytea not null,
          constraint pk_chat_events primary key (account_id, message_id, number),
          constraint fk_chat_events_account_id_chat_messages
            foreign key (account_id, message_id) references chat_messages (account_id, id) on delete cascade
        )
        """
    )
    op.execute(
        """
        create table chat_approvals (
          account_id uuid not null, id uuid not null, message_id uuid not null,
          call_id text not null, tool text not null, arguments_hash bytea not null,
          sealed bytea not null, sealed_edit bytea,
          expires_at timestamptz not null, decision text, decided_by text, decided_at timestamptz,
          used_at timestamptz,
          constraint pk_chat_approvals primary key (account_id, id),
          constraint fk_chat_approvals_account_id_chat_messages
            foreign key (account_id, message_id) references chat_messages (account_id, id) on delete cascade
        )
        """
    )
    op.execute("create index ix_chat_approvals_message on chat_approvals (account_id, message_id)")


def downgrade() -> None:
    for table in ("approvals", "events", "messages", "conversations", "consents"):
        op.execute(f"drop table chat_{table}")
