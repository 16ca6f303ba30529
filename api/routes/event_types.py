"""The types of events, for subscribers."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from api.deps import Caller, require_scope
from api.http.strict_route import StrictRoute
from models.events.event_types import EVENT_TYPES
from models.views import View

router = APIRouter(prefix="/api/webhooks", tags=["events"], route_class=StrictRoute)


class EventTypeView(View):
    """A type of events."""

    name: str = Field(description="What webhooks subscribe to.")
    description: str = Field(description="When such an event is written.")
    json_schema: dict[str, Any] = Field(
        alias="schema", description="The JSON Schema (draft 2020-12) of the whole event."
    )
    example: dict[str, Any] = Field(description="Such an event as it is sent.")


class EventTypes(View):
    """All types of events."""

    event_types: list[EventTypeView] = Field(description="The types.")


@router.get("/event-types")
async def list_event_types(caller: Annotated[Caller, require_scope("webhooks")]) -> EventTypes:
    """List the types of events, each with the JSON Schema of the whole event and an example."""
    return _event_types()


@cache
def _event_types() -> EventTypes:
    return EventTypes(
        event_types=[
            EventTypeView(
                name=one.name, description=one.description, schema=one.envelope_schema(), example=one.example
            )
            for one in EVENT_TYPES.values()
        ]
    )
