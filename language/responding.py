"""What a sender that waits for a run gets in place of the run: the trigger's `respond`, rendered.

It goes out under the service's own address, to whoever has the ingest URL. So it is data and never a page,
and says nothing that is the service's to say: of the connection, of cookies, of what browsers may do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import orjson

from language import templates
from language.expressions import JSON, Budget, Reference
from language.expressions.values import compact_json
from language.triggers import Respond
from language.validation.findings import Finding, escaped

MAX_BODY_BYTES = 1024 * 1024
MAX_HEADER_LENGTH = 4096

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_MEDIA_TYPE = re.compile(
    r"(application/([a-z0-9!#$&^_.-]+\+)?json|text/plain)( *; *charset=\"?utf-8\"?)?", re.IGNORECASE
)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_RESERVED = re.compile(
    "alt-svc|clear-site-data|connection|content-(encoding|length|range|security-policy.*)|cross-origin-.*|date"
    "|expect-ct|idempotent-replayed|keep-alive|nel|origin-agent-cluster|permissions-policy|proxy-.*"
    "|public-key-pins.*|ratelimit.*|referrer-policy|refresh|report-to|reporting-endpoints|server"
    "|service-worker-allowed|set-cookie2?|(x-)?sourcemap|strict-transport-security|te|trailer|transfer-encoding"
    "|upgrade|www-authenticate|x-(content-type-options|frame-options|request-id|xss-protection)",
    re.IGNORECASE,
)
# They cannot have a body, and a sender makes nothing of them.
_BODILESS = frozenset({205, 304})


class RespondError(Exception):
    """What `respond` gives for a run is no answer. The message says why, without a value."""


class Response(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    content: bytes


class ResponseTemplates:
    """The templates of a `respond`, compiled once for all runs.

    Attributes:
        references: what they read from the scope.
    """

    def __init__(self, respond: Respond) -> None:
        self._status = templates.compile_template(respond.status)
        self._headers = templates.compile_template(dict(respond.headers))
        self._body = templates.compile_template(respond.body)
        self._is_empty = respond.body is None
        self.references: tuple[Reference, ...] = tuple(
            reference
            for template in (self._status, self._headers, self._body)
            for reference in template.references
        )

    def render(self, scope: Mapping[str, JSON], budget: Budget) -> Response:
        """The answer for a run. Status, headers and body share the budget.

        Raises:
            ExpressionError: as `Template.render`.
            RespondError: status, headers or body are none that may be sent.
        """
        status = _status(self._status.render(scope, budget))
        if status is None:
            raise RespondError("status gives no whole number from 200 to 599 that can have a body.")
        given = cast(dict[str, JSON], self._headers.render(scope, budget))
        headers = {name.lower(): _written(value).strip() for name, value in given.items()}
        for name, value in headers.items():
            if (wrong := _wrong_value(name, value)) is not None:
                raise RespondError(f"The header {name} has no value that may be sent: {wrong}")
        if self._is_empty or status == 204:
            return Response(status, headers, b"")
        body = self._body.render(scope, budget)
        media_type = headers.setdefault("content-type", _JSON)
        try:
            is_text = media_type.lower().startswith("text/")
            content = _written(body).encode() if is_text else orjson.dumps(body)
        except (UnicodeEncodeError, orjson.JSONEncodeError):
            raise RespondError("body gives what cannot be written.") from None
        if is_text:
            headers["content-type"] = _TEXT
        if len(content) > MAX_BODY_BYTES:
            raise RespondError(f"body gives more than {MAX_BODY_BYTES} bytes.")
        return Response(status, headers, content)


def errors_of(respond: Respond, pointer: str) -> Iterator[Finding]:
    """What is wrong with status and headers that stand at a pointer, as far as they are written out."""
    if not _is_template(respond.status) and _status(respond.status) is None:
        message = "Must be a whole number from 200 to 599, but for 205 and 304, or a template that gives one."
        yield Finding(f"{pointer}/status", "out_of_range", message)
    known: set[str] = set()
    for name, value in respond.headers.items():
        place = f"{pointer}/headers/{escaped(name)}"
        if _RESERVED.fullmatch(name):
            message = f"The header {name.lower()} is the service's to set: leave it out."
            yield Finding(place, "forbidden_header", message)
        elif name.lower() in known:
            yield Finding(place, "duplicate_field", "The header is there already, in other letters.")
        elif not _is_template(value) and (wrong := _wrong_value(name, value.strip())) is not None:
            yield Finding(place, "not_allowed", wrong)
        known.add(name.lower())


def _is_template(value: object) -> bool:
    return isinstance(value, str) and "{{" in value


def _status(value: JSON) -> int | None:
    if isinstance(value, str) and re.fullmatch("[0-9]{3}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 200 <= value <= 599 and value not in _BODILESS else None


def _wrong_value(name: str, value: str) -> str | None:
    if not _HEADER_VALUE.fullmatch(value) or len(value) > MAX_HEADER_LENGTH:
        return f"It has at most {MAX_HEADER_LENGTH} characters of ASCII, no line breaks or other controls."
    if name.lower() == "content-type" and not _MEDIA_TYPE.fullmatch(value):
        return "Answers are application/json, another …+json, or text/plain, in UTF-8."
    return None


def _written(value: JSON) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)
