"""The stream of an account: server-sent events with the ids and states of what changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from uuid import UUID

from fastapi.sse import format_sse_event
from pydantic import BaseModel, Field

from api.auth.credentials import Presented
from api.deps import Services
from api.streams.live_events import Event, follow
from models.activity.states import Kind
from services.account_feeds import Message

# An event, since a browser does not show comments to a page: without one it could not tell a quiet server
# from one that is frozen.
_HEARTBEAT = format_sse_event(event="heartbeat", data_str="{}")


class StateChange(BaseModel):
    """A thing whose state has changed."""

    kind: Kind = Field(description="What it is.")
    id: str = Field(description="Its id; of an approval `<id of the run>/<id of the step>`.")
    state: str = Field(description="Its status; of an approval `waiting` or `over`.")


class StateChanges(BaseModel):
    """The changes since the event before."""

    changes: list[StateChange] = Field(description="Each with its newest state.")


def stream(
    services: Services, credential: Presented, account_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """Return the events of an account, without an end.

    Args:
        services: of the application.
        credential: the client's credential.
        account_id: the account.
        seen: the id of the last event that the client has received, or None.
    """

    def events(messages: Sequence[Message]) -> tuple[Sequence[Event], bool]:
        return [Event(one.name, one.id, _as_data(one)) for one in messages], False

    feed = services.feeds.read(account_id, seen)
    return follow(services, credential, account_id, feed, events, _HEARTBEAT)


def _as_data(message: Message) -> StateChanges:
    changes = [StateChange(kind=one.kind, id=one.id, state=one.state) for one in message.changes]
    return StateChanges(changes=changes)
