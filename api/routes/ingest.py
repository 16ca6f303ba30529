"""Ingest: an event for a workflow, from anyone who has its URL."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import structlog
from fastapi import APIRouter, Request, Response
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

from api.deps import Services, ServicesDep, services_of
from api.http import limits
from api.http.chain import depth_of
from api.http.json_body import StrictRequest, parse_json
from api.http.openapi import problems
from api.http.strict_route import Handler, StrictRoute
from api.problems import Problem
from api.routes.runs import CHECKED, Wait
from api.schemas.ingest_answers import ANSWERS, answer
from language import triggers
from language.triggers import WebhookTrigger
from models.automations.run_targets import RunTarget
from models.errors import DomainError, FieldError, Invalid, RateLimited
from models.runs import acceptance
from models.runs.acceptance import MAX_DEDUPE_LENGTH, RunAcceptance, RunAccepted, RunRequest, StaleTarget
from outbound import chain
from services.event_checks import Charge
from services.signatures import SIGNED_BY, Signed, repeat_key

_QUERY = re.compile(rb"|wait=([1-9]|[12][0-9]|30)")


class _IngestRoute(StrictRoute):
    """Calls its endpoint directly if the query leaves FastAPI nothing to check, which saves time."""

    def _handler(self) -> Handler:
        handle, endpoint = super()._handler(), self.endpoint

        async def handle_event(request: Request) -> Response:
            query = _QUERY.fullmatch(request.scope["query_string"])
            if query is None:
                return await handle(request)
            wait = int(query[1]) if query[1] else None
            token = request.path_params["token"]
            return await endpoint(token=token, request=request, services=services_of(request), wait=wait)

        return handle_event


router = APIRouter(prefix="/api/workflows/ingest", tags=["triggers"], route_class=_IngestRoute)

_MAX_FIELDS = 1000
_TAKEN = f"An event takes {_MAX_FIELDS:,} fields at most, and no file: the trigger file_upload takes files."
_CHARSETS = (b"utf-8", b"utf8", b"iso-8859-1", b"iso8859-1", b"latin-1", b"latin1")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
# Any JSON is accepted. Clients of openapi-python-client cannot send a body of any type, so it is declared an
# object.
_EVENT_SCHEMA = {"type": "object", "additionalProperties": True}
_FORM_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}
# The route reads the body by rules of its own, instead of FastAPI.
_REQUEST: dict[str, Any] = {
    "requestBody": {
        "description": "The event: any JSON, or a form as an object; a field that comes twice is an array."
        " An empty body is `{}`.",
        "content": {
            "application/json": {"schema": _EVENT_SCHEMA, "example": {"email": "ada@example.com"}},
            **{media_type: {"schema": _FORM_SCHEMA} for media_type in _FORMS},
        },
    },
    "parameters": [
        {
            "name": name,
            "in": "header",
            "description": f"{whose} id of the event: one that comes again is the same run.",
            "schema": {"type": "string", "maxLength": MAX_DEDUPE_LENGTH},
        }
        for name, whose in (("Idempotency-Key", "The sender's"), ("webhook-id", "Standard Webhooks'"))
    ]
    + [
        {
            "name": name,
            "in": "header",
            "description": f"Part of the signature, where the workflow's trigger asks for one of the scheme"
            f" `{scheme}`; the body is signed byte by byte.",
            "schema": {"type": "string"},
        }
        for scheme, names in SIGNED_BY.items()
        for name in names
        if name != "webhook-id"
    ]
    + [
        {
            "name": chain.HEADER,
            "in": "header",
            "description": "Sent by this service: how many runs have led to the event, 5 at most.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ],
}


@router.post(
    "/{token}",
    status_code=202,
    response_model=RunAccepted,
    responses={
        **problems(
            "workflow_not_active",
            "unsupported_charset",
            "rate_limited",
            "too_many_runs",
            "invalid_signature",
            "chain_too_deep",
            "signing_secret_unusable",
            *CHECKED,
        ),
        **ANSWERS,
    },
    openapi_extra=_REQUEST,
)
async def ingest(
    token: str,
    request: Request,
    services: ServicesDep,
    wait: Wait = None,
) -> Response:
    """Accept an event for the workflow with this ingest token: it will be run, once.

    The body is any JSON, also an array or a text, or a form. The token in the URL is the only credential; a
    workflow whose trigger has a `signature` accepts only signed events.

    Events with the same `Idempotency-Key`, `webhook-id` or `dedupe` value are one run, whatever their bodies:
    the answer to a repeat has the status of the first run or, with `wait`, its result.
    """
    target, accepted = await _accept_current(services, token, request, wait)
    return await answer(services, target, accepted, wait, _charge(services, target, request))


async def _accept_current(
    services: Services, token: str, request: Request, wait: int | None
) -> tuple[RunTarget, RunAcceptance]:
    """Accept an event for the workflow of a token as it is now, also if this process remembers a former one.

    Acceptance verifies what is remembered. A refusal does not, nor the answer to a repeat that violates the
    schema, so the workflow is then read again.
    """
    remembered = services.ingest_targets.recall(token)
    target = remembered or await services.ingest_targets.find(token)
    while True:
        try:
            services.database.lend_to(str(target.account_id))
            accepted = await _accept(services, target, request, wait)
            if accepted.repeated and target is remembered:
                await services.ingest_targets.find(token)
            return target, accepted
        except StaleTarget:
            target = await services.ingest_targets.find(token)
        except RateLimited:
            raise
        except (DomainError, Problem):
            if (
                target is not remembered
                or (target := await services.ingest_targets.find(token)) == remembered
            ):
                raise


async def _accept(services: Services, target: RunTarget, request: Request, wait: int | None) -> RunAcceptance:
    structlog.contextvars.bind_contextvars(workflow_id=str(target.automation_id))
    await limits.check(services, "ingest", str(target.automation_id), request=request)
    assert isinstance(request, StrictRequest)
    signed = await _verify_signature(services, target, request)
    payload = await _payload(request) if signed is None else await _signed_payload(request)
    context = _read_context(target, request)
    charge = _charge(services, target, request)
    senders = _senders_key(request, signed, payload)
    value = await services.event_checks.dedupe_value(target, payload, context, charge)
    dedupe_key = senders if value is None else _workflows_key(value)
    depth = depth_of(request)
    accepted = await _repeated_misfit(services, target, payload, dedupe_key, charge)
    if accepted is not None:
        return accepted
    return await services.run_intake.accept(
        RunRequest(
            target, "webhook", payload, context, dedupe_key, depth=depth, is_waited_for=wait is not None
        )
    )


def _read_context(target: RunTarget, request: Request) -> dict[str, Any]:
    """Return `request` as the workflow's expressions see it; empty if none of them reads it."""
    has_dedupe = isinstance(target.trigger, WebhookTrigger) and target.trigger.dedupe is not None
    if not (target.reads_request or has_dedupe):
        return {}
    return triggers.readable_request(target.trigger, request.headers.items(), request.query_params)


def _charge(services: Services, target: RunTarget, request: Request) -> Charge:
    return partial(limits.charge, services, "ingest", str(target.automation_id), request=request)


async def _verify_signature(services: Services, target: RunTarget, request: StrictRequest) -> Signed | None:
    """Return the verified signature of an event; None if the workflow requires none.

    Raises:
        InvalidSignature, Conflict: it is not the sender's, or cannot be checked.
    """
    if not isinstance(target.trigger, WebhookTrigger) or target.trigger.signature is None:
        return None
    return await services.signatures.check(target, request.headers, await request.raw())


async def _repeated_misfit(
    services: Services, target: RunTarget, payload: Any, dedupe_key: str | None, charge: Charge
) -> RunAcceptance | None:
    """Return the earlier run of a repeated event that violates the `input_schema`; None if it matches.

    Raises:
        Invalid: it does not, and repeats none.
    """
    try:
        await services.event_checks.check_input(target, payload, "", charge)
        return None
    except Invalid:
        if dedupe_key is None:
            raise
        async with services.database.connection() as connection:
            accepted = await acceptance.find_accepted(connection, target.automation_id, dedupe_key)
        if accepted is None:
            raise
        return accepted


async def _payload(request: StrictRequest) -> Any:
    """Return the event: any JSON, or a form as an object with arrays for repeated fields; `{}` if empty."""
    if not await request.raw():
        return {}
    content_type = request.media_type
    if content_type in _FORMS:
        return await _form(request, content_type)
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Problem(415, "unsupported_media_type", "Send JSON (application/json) or a form.")
    return parse_json(await request.raw())


async def _signed_payload(request: StrictRequest) -> Any:
    """Return the event from its body alone, so that unsigned parts cannot turn a repeat into another event.

    It is JSON whatever its type is, else a percent-encoded form in UTF-8.
    """
    raw = await request.raw()
    if not raw:
        return {}
    try:
        return parse_json(raw)
    except Problem:
        if request.media_type != _FORMS[0] or _begins_as_json(raw):
            raise
    return await _parse_urlencoded(raw, "utf-8")


async def _form(request: StrictRequest, content_type: str) -> Any:
    raw = await request.raw()
    if _begins_as_json(raw):
        return parse_json(raw)
    charset = _charset(request)

    async def stream() -> AsyncGenerator[bytes]:
        yield raw

    try:
        if content_type == "multipart/form-data":
            parser = _WholeForm(request.headers, stream(), max_files=0, max_fields=_MAX_FIELDS)
            return _fields((await parser.parse()).multi_items())
    except MultiPartException as error:
        raise Invalid([FieldError("", "invalid_form", f"{error.message} {_TAKEN}")]) from None
    return await _parse_urlencoded(raw, charset)


class _WholeForm(MultiPartParser):
    """Starlette's parser, which takes what has come of a form that was cut, without its last field."""

    _ended = False

    def on_end(self) -> None:
        """Note that the last boundary has come."""
        self._ended = True

    async def parse(self) -> FormData:
        """Return the fields.

        Raises:
            MultiPartException: it is no form, or was cut.
        """
        fields = await super().parse()
        if not self._ended:
            raise MultiPartException("The form ends before its last boundary.")
        return fields


def _begins_as_json(raw: bytes) -> bool:
    """Return whether a body begins like JSON, which `curl -d '{…}'` sends with the type of a form."""
    return raw.lstrip()[:1] in (b"{", b"[")


def _charset(request: Request) -> str:
    """Return the form's charset. Others than these may produce lone surrogates, or break the parser."""
    _, parameters = parse_options_header(request.headers["content-type"])
    charset = parameters.get(b"charset", b"utf-8").lower()
    if charset not in _CHARSETS:
        message = "Send the form in UTF-8 (charset=utf-8) or in Latin-1 (charset=iso-8859-1)."
        raise Problem(415, "unsupported_charset", message)
    return charset.decode()


async def _parse_urlencoded(raw: bytes, charset: str) -> dict[str, Any]:
    return _fields(await asyncio.to_thread(_pairs, raw, charset))


def _pairs(raw: bytes, charset: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode(charset, "replace"), keep_blank_values=True, encoding=charset, errors="replace",
            max_num_fields=_MAX_FIELDS,
        )  # fmt: skip
    except ValueError:
        message = f"A form may have {_MAX_FIELDS} fields at most."
        raise Invalid([FieldError("", "invalid_form", message)]) from None


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise Invalid([FieldError("", "nul_character", "The form holds a NUL character.")])
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


# The key that makes repeated events one run: the workflow's, else the sender's. Each kind of key has its own
# prefix, so that equal values of different kinds do not collide.


def _senders_key(request: Request, signed: Signed | None, payload: Any) -> str | None:
    if signed is not None:
        return repeat_key(signed, payload)
    keys = {name: request.headers.get(name) for name in ("idempotency-key", "webhook-id")}
    for name, key in keys.items():
        if key and len(key) > MAX_DEDUPE_LENGTH:
            message = f"The header {name} may have {MAX_DEDUPE_LENGTH} characters."
            raise Invalid([FieldError("", "header_too_long", message)])
    return next((f"{name}/{key}" for name, key in keys.items() if key), None)


def _workflows_key(value: str) -> str:
    long = len(value) > MAX_DEDUPE_LENGTH
    return f"dedupe/{hashlib.sha256(value.encode()).hexdigest() if long else value}"
