"""The bodies and answers of the assistant's routes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from api.http.validation import Body
from assistant.bounds import DEFAULT_BUDGET, MAX_BUDGET, MAX_TEXT
from models.chat.approvals import Decision
from models.chat.conversations import ConversationView
from models.chat.messages import MessageView


class ChatState(BaseModel):
    """The state of the assistant: usable or not, and the missing settings."""

    enabled: bool = Field(description="Whether a model is set.")
    how: str | None = Field(description="How to set one up; null if one is set.")
    model: str | None = Field(description="The model's name; null if none is set.")
    host: str | None = Field(description="The host to which targets' data go; null if no model is set.")
    agreed_at: datetime | None = Field(
        description="When the account agreed to that host; null: it has not, and nothing is sent."
    )
    messages_today: int = Field(description="How many messages the account has sent within a day.")
    tokens_today: int = Field(description="How many tokens these took.")
    credits_today: int = Field(description="How many credits their lookups cost.")


class ConsentBody(Body):
    """The consent to send targets' data to the model's host."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"host": "127.0.0.1:11434"}]})

    host: str = Field(max_length=300, description="The `host` of GET /api/chat: what is agreed to.")


class NewConversation(Body):
    """A conversation to begin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"credit_budget": 20}]})

    credit_budget: int = Field(
        default=DEFAULT_BUDGET, ge=0, le=MAX_BUDGET,
        description="The credits that lookups may spend without an approval.",
    )  # fmt: skip


class OpenBeside(Body):
    """The object that the person has open beside the chat."""

    kind: Literal["run", "monitor", "workflow", "lookup"] = Field(description="What it is.")
    id: str = Field(
        min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f\[\]]+$",
        description="Its id; of a lookup `<kind> <target>`.",
    )  # fmt: skip


class NewMessage(Body):
    """A message to the assistant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "What is known of 8.8.8.8?"}]})

    text: str = Field(
        min_length=1, max_length=MAX_TEXT, pattern=r"\S", description="What the person wants, in words."
    )
    about: OpenBeside | None = Field(default=None, description="What is open beside the chat, if anything.")


class ApprovalDecision(Body):
    """The decision on a call that waits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"decision": "approve", "arguments_hash": "9f" * 32}]}
    )

    decision: Decision = Field(description="Whether the call is made.")
    arguments_hash: str = Field(
        pattern="^[0-9a-f]{64}$", description="That of the card: the decision is for these arguments alone."
    )
    arguments: dict[str, Any] | None = Field(
        default=None, description="Other arguments to make the call with; only with `approve`."
    )


class ApprovalAnswer(BaseModel):
    """The decision, as it was recorded."""

    id: UUID = Field(description="The approval's id.")
    decision: Decision = Field(description="What was decided.")
    edited: bool = Field(description="Whether other arguments were put in.")


class Conversations(BaseModel):
    """A page of conversations."""

    conversations: list[ConversationView] = Field(description="The conversations, newest first.")
    next_cursor: str | None = Field(description="For the next page; null on the last.")


class Conversation(ConversationView):
    """A conversation with its messages."""

    messages: list[MessageView] = Field(description="The last hundred messages, newest first.")
