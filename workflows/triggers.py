"""What a triggering request leaves in a run: the parts expressions may read, and the key of its repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from workflows import expressions
from workflows.definition import Trigger, WebhookTrigger

# Never kept: an expression must not be able to pass a caller's credentials on.
_CREDENTIALS = frozenset(
    {"authorization", "cookie", "proxy-authorization", "x-api-key", "x-hub-signature", "x-hub-signature-256"}
)
_SIGNATURE_SUFFIX = "-signature"


def readable_request(headers: Iterable[tuple[str, str]], query: Mapping[str, str]) -> dict[str, Any]:
    """`request` as expressions see it: lower-case header names without credentials, and the query."""
    kept = {
        name.lower(): value
        for name, value in headers
        if name.lower() not in _CREDENTIALS and not name.lower().endswith(_SIGNATURE_SUFFIX)
    }
    return {"headers": kept, "query": dict(query)}


def dedupe_value(trigger: Trigger, payload: Any, request: Mapping[str, Any]) -> str | None:
    """The value of the trigger's `dedupe` for this event as text; None when it has none or gives null.

    Raises:
        ExpressionError: if it cannot be evaluated on this event.
    """
    if not isinstance(trigger, WebhookTrigger) or trigger.dedupe is None:
        return None
    value = expressions.compile(trigger.dedupe).evaluate({"trigger": payload, "request": dict(request)})
    if value is None:
        return None
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
