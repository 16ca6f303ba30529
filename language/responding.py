"""The rendering of the trigger's `respond`: the answer for a sender that waits for a run.

It is sent under the service's own address, to anyone with the ingest URL. So it is data and never a page, and
has only a few headers: those that proxies or browsers act on are reserved for the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import orjson

from language import templates
from language.expressions import JSON, Budget, Reference
from language.expressions.values import compact_json
from language.findings import Finding, escape_name
from language.triggers import Respond

MAX_BODY_BYTES = 1024 * 1024
MAX_HEADER_LENGTH = 4096

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
_MEDIA_TYPE = re.compile(
    r"(application/([a-z0-9!#$&^_.-]+\+)?json|text/plain)( *; *charset=\"?utf-8\"?)?", re.IGNORECASE
)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_ALLOWED = re.compile("content-type|content-language|location|retry-after|x-reply-.+", re.IGNORECASE)
_NAMES = "There are Content-Type, Content-Language, Retry-After, X-Reply-… and, of a redirect, Location."
# Browsers skip tabs and read a backslash as a slash. These forms cannot lead them to another site.
_SITE = re.compile(r"https?://[^/?#\\\s@]+([/?#]|\Z)", re.IGNORECASE)
_OWN_PATH = re.compile(r"/(?![/\\])")
_NO_SPACES = re.compile(r"[\x21-\x7e]*")
# These statuses cannot have a body, and are of no use to a sender.
_BODILESS = frozenset({205, 304})


class RespondError(Exception):
    """The rendered `respond` is not a valid answer. The message has the reason, without a value."""


class Response(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    content: bytes


class ResponseTemplates:
    """The templates of a `respond`, compiled once for all runs.

    Attributes:
        references: the parts of the scope that they read.
    """

    def __init__(self, respond: Respond) -> None:
        self._location = {name.lower(): value for name, value in respond.headers.items()}.get("location", "")
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
        """Return the answer for a run. Status, headers and body share the budget.

        Headers that must not be sent are left out.

        Raises:
            ExpressionError: as `Template.render`.
            RespondError: the status or the body must not be sent.
        """
        status = _status(self._status.render(scope, budget))
        if status is None:
            raise RespondError("status gives no whole number from 200 to 599 that can have a body.")
        given = cast(dict[str, JSON], self._headers.render(scope, budget))
        headers = {name.lower(): _write_header(value).strip() for name, value in given.items()}
        headers = {name: value for name, value in headers.items() if self._may_send(name, value, status)}
        if self._is_empty or status == 204:
            return Response(status, headers, b"")
        body = self._body.render(scope, budget)
        media_type = headers.setdefault("content-type", _JSON)
        try:
            is_text = media_type.lower().startswith("text/")
            content = _write_header(body).encode() if is_text else orjson.dumps(body)
        except (UnicodeEncodeError, orjson.JSONEncodeError):
            raise RespondError("body gives what cannot be written.") from None
        if is_text:
            headers["content-type"] = _TEXT
        if len(content) > MAX_BODY_BYTES:
            raise RespondError(f"body gives more than {MAX_BODY_BYTES} bytes.")
        return Response(status, headers, content)

    def _may_send(self, name: str, value: str, status: int) -> bool:
        if not _ALLOWED.fullmatch(name) or _wrong_value(name, value) is not None:
            return False
        return name != "location" or (300 <= status < 400 and _stays(self._location, value))


def refused_headers(headers: Iterable[str]) -> list[str]:
    """Return the names that are never sent as headers; old workflows may still have them."""
    return [name for name in headers if not _ALLOWED.fullmatch(name)]


def errors_of(respond: Respond, pointer: str) -> Iterator[Finding]:
    """Yield the errors of status and headers at a pointer, as far as they are constant."""
    if not _is_template(respond.status) and _status(respond.status) is None:
        message = "Must be a whole number from 200 to 599, but for 205 and 304, or a template that gives one."
        yield Finding(f"{pointer}/status", "out_of_range", message)
    known: set[str] = set()
    for name, value in respond.headers.items():
        place = f"{pointer}/headers/{escape_name(name)}"
        if not _ALLOWED.fullmatch(name):
            yield Finding(place, "forbidden_header", f"Answers are not sent with this header. {_NAMES}")
        elif name.lower() in known:
            yield Finding(place, "duplicate_field", "The header is there already, in other letters.")
        elif not _is_template(value) and (wrong := _wrong_value(name, value.strip())) is not None:
            yield Finding(place, "not_allowed", wrong)
        elif name.lower() == "location" and (wrong := _wrong_location(respond.status, value.strip())):
            yield Finding(place, "not_allowed", wrong)
        known.add(name.lower())


def _wrong_location(status: object, text: str) -> str | None:
    """Return the error of a Location, as far as it and the status are constant."""
    if not _is_template(status) and not 300 <= (_status(cast(JSON, status)) or 0) < 400:
        return "Location goes with a status from 300 to 399."
    before, _, _ = text.partition("{{")
    if before and not _stays(text, before):
        return "Begin with a path of this site (/thanks), or write out the site: https://example.com/…"
    return None


def _stays(text: str, value: str) -> bool:
    """Return whether a Location leads to a site that its template spells out, or to a path of this one."""
    before, template, _ = text.strip().partition("{{")
    site = _SITE.match(before)
    fixed = site is not None and (not template or site[1] != "")
    return _NO_SPACES.fullmatch(value) is not None and (fixed or _OWN_PATH.match(value) is not None)


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


def _write_header(value: JSON) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)
