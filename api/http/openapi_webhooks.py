"""The part of OpenAPI about the service's own requests: each type of events, to webhooks."""

from __future__ import annotations

from typing import Any

from models.events.event_types import EVENT_TYPES, EventType
from outbound import chain

_HEADERS = {
    "webhook-id": ("The event's id: the same whenever it comes.", {"type": "string", "format": "uuid"}),
    "webhook-timestamp": ("When this request was sent, in Unix seconds.", {"type": "integer"}),
    "webhook-signature": (
        "`v1,` and the base64 of an HMAC-SHA256; several, with spaces between, while a secret is replaced.",
        {"type": "string"},
    ),
}


_CHAIN = {
    "name": chain.HEADER,
    "in": "header",
    "required": False,
    "description": "Of an event of a run: how many runs have led to it; ingest URLs refuse more than 5.",
    "schema": {"type": "integer"},
}


def webhook_operations() -> dict[str, Any]:
    """Return OpenAPI's `webhooks`: for each type of events the request that a receiver gets."""
    return {name: {"post": _operation(event_type)} for name, event_type in EVENT_TYPES.items()}


def _operation(event_type: EventType) -> dict[str, Any]:
    return {
        "operationId": event_type.name.replace(".", "_"),
        "summary": event_type.name,
        "description": event_type.description,
        "tags": ["events"],
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": description, "schema": schema}
            for name, (description, schema) in _HEADERS.items()
        ]
        + [_CHAIN],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": event_type.envelope_schema(),
                    "examples": {event_type.name: {"value": event_type.example}},
                }
            },
        },
        "responses": {
            "2XX": {"description": "The event is taken. Answer within 15 seconds."},
            "410": {"description": "The webhook is gone for good: it is switched off."},
            "default": {"description": "A failure: the event comes again, under the same id."},
        },
    }
