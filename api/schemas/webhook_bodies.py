"""The settings of webhooks in requests, and their checks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StringConstraints, ValidationInfo
from pydantic_core import PydanticCustomError

from api.deps import Id
from api.http.validation import Body
from models.events.event_types import unknown_filter
from models.webhooks.endpoints import EndpointSettings, EndpointView
from outbound.guard import Refusal, check_header, check_header_name, check_header_value, check_url

# Receivers rely on these headers, so an account must not set them.
_SIGNATURE_PREFIX = "webhook-"
_OF_THE_BODY = frozenset({"accept-encoding", "content-encoding", "content-type"})


def _refuse_if(text: str, refusal: Refusal | None) -> str:
    if refusal is not None:
        raise PydanticCustomError(refusal.code, "{text}", {"text": refusal.message})  # pyright: ignore[reportArgumentType]
    return text


def _check_url(url: str, info: ValidationInfo) -> str:
    context: Any = info.context
    return _refuse_if(url, check_url(url, context["networks"]))


def _check_event(pattern: str) -> str:
    if message := unknown_filter(pattern):
        raise PydanticCustomError("unknown_event", "{text}", {"text": message})
    return pattern


def _check_header_name(name: str) -> str:
    known = name.lower()
    if known.startswith(_SIGNATURE_PREFIX) or known in _OF_THE_BODY:
        ours = f"{', '.join(sorted(_OF_THE_BODY))} and headers that begin with {_SIGNATURE_PREFIX}"
        return _refuse_if(name, Refusal("forbidden_header", f"The service sets {ours}: leave it out."))
    return _refuse_if(name, check_header_name(name) or check_header(name))


def _check_header_value(value: str) -> str:
    return _refuse_if(value, check_header_value(value))


def _check_headers_differ(headers: dict[str, str]) -> dict[str, str]:
    if len({name.lower() for name in headers}) < len(headers):
        raise PydanticCustomError("invalid_format", "Two names of headers differ in case alone: keep one.")
    return headers


Url = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_check_url)]
Events = Annotated[list[Annotated[str, AfterValidator(_check_event)]], Field(min_length=1, max_length=50)]
HeaderName = Annotated[str, StringConstraints(max_length=100), AfterValidator(_check_header_name)]
HeaderValue = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_check_header_value)]
Headers = Annotated[
    dict[HeaderName, HeaderValue], Field(max_length=20), AfterValidator(_check_headers_differ)
]
Description = Annotated[str, StringConstraints(max_length=500)]
RateLimit = Annotated[int, Field(strict=True, ge=1, le=10_000)]

_URL = "Where events go: http or https, port 80, 443 or from 1024 on."
_EVENTS = "Which: event types, prefixes such as `monitor.*`, or `*` for all."
_DESCRIPTION = "What it is for."
_HEADERS = "Headers to send along, at most 20."
_RATE_LIMIT = "Deliveries a minute at most; null for no bound."
_IS_ACTIVE = "Whether events go there."
_ABSENT: Any = None


class NewWebhook(Body):
    """A webhook to make."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"url": "https://example.com/hooks", "events": ["workflow.run.*", "credits.low"]}]
        }
    )
    read_only = frozenset(EndpointView.model_fields) - frozenset(EndpointSettings.__dataclass_fields__)

    url: Url = Field(description=_URL)
    events: Events = Field(description=_EVENTS)
    description: Description | None = Field(None, description=_DESCRIPTION)
    headers: Headers = Field(default_factory=dict[str, str], description=_HEADERS)
    rate_limit: RateLimit | None = Field(None, description=_RATE_LIMIT)
    is_active: StrictBool = Field(default=True, description=_IS_ACTIVE)


class WebhookChanges(Body):
    """The fields to change; the absent ones stay. Read-only ones are ignored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"is_active": False}]})
    read_only = NewWebhook.read_only | {"secret"}

    url: Url = Field(default=_ABSENT, description=_URL)
    events: Events = Field(default=_ABSENT, description=_EVENTS)
    description: Description | None = Field(default=None, description=_DESCRIPTION)
    headers: Headers = Field(default=_ABSENT, description=_HEADERS)
    rate_limit: RateLimit | None = Field(default=None, description=_RATE_LIMIT)
    is_active: StrictBool = Field(default=_ABSENT, description=_IS_ACTIVE)

    def list_given(self) -> dict[str, Any]:
        """Return the fields of `EndpointSettings` that the body names."""
        return {
            name: getattr(self, name)
            for name in self.model_fields_set & EndpointSettings.__dataclass_fields__.keys()
        }


class WebhookReplacement(WebhookChanges):
    """A webhook and its fields to change; the absent ones stay. Read-only ones are ignored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "019a8e02-6a17-7c48-a5f9-2d4b6e8f0a1c", "events": ["*"]}]}
    )
    read_only = WebhookChanges.read_only - {"id"}

    id: Id = Field(description="The webhook's id.")


class WebhookName(Body):
    """The webhook of a request."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "019a8e02-6a17-7c48-a5f9-2d4b6e8f0a1c"}]}
    )

    id: Id = Field(description="The webhook's id.")


class Rotation(Body):
    """The replacement of a secret."""

    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=7 * 86_400)] = Field(
        default=86_400, description="For how many seconds the secret before signs, too."
    )
