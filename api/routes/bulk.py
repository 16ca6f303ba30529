"""Bulk searches: up to 100 companies, web searches, domains or addresses, or 1,000 people, in one request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from api.auth.credentials import NO_CREDENTIAL, find_credential
from api.deps import Caller, Services, ServicesDep, require_scope
from api.http.accept import choose_media_type
from api.http.idempotency import Idempotent, NotIdempotent, claim_of, refuse_key
from api.http.limits import limit_requests
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.schemas.bulk_answers import (
    CompanySearches,
    DomainSearches,
    IpSearches,
    WebSearches,
    field_names,
    looked_up,
    show_answer,
)
from api.schemas.lookup_options import Options, options_among
from api.streams.bulk_streams import (
    EVENTS,
    LINES,
    LINES_IN_A_ROW,
    PROFILES,
    SEARCHES,
    BulkStream,
    Form,
    json_lines,
    stream,
)
from models.identifiers import new_id
from providers.lookup.billing import Payer
from services.bulk_searches import BulkSearch, Question

router = APIRouter(prefix="/api", tags=["bulk"], route_class=StrictRoute)

Searcher = Annotated[Caller, require_scope("bulk")]

_JSON = "application/json"


class _Queries(Body):
    queries: list[str] = Field(min_length=1, max_length=100, fail_fast=True, description="1 to 100 queries.")


class CompanyQueries(_Queries):
    """Companies to search for, by name or domain."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queries": ["Example Bank plc", "example.com"]}]}
    )


class WebQueries(_Queries):
    """Queries for the web."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queries": ["Ada Lovelace", "Grace Hopper"]}]})


class DomainQueries(_Queries):
    """Domains to look up."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queries": ["example.com", "example.org"]}]})


class IpQueries(_Queries):
    """Addresses to look up."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queries": ["8.8.8.8", "2001:4860:4860::8888"]}]}
    )


class Emails(Body):
    """The addresses of people to look up."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"emails": ["ada@example.com", "grace@example.org"]}]}
    )

    emails: list[str] = Field(
        min_length=1, max_length=1000, fail_fast=True, description="1 to 1,000 e-mail addresses."
    )


async def _search_form(request: Request) -> Form | None:
    """Return the form of the stream; None for one JSON document."""
    if choose_media_type(request, _JSON, EVENTS) == _JSON:
        return None
    await refuse_key(request.headers.get("idempotency-key"))
    return SEARCHES


async def _profile_form(request: Request) -> Form:
    media_type = choose_media_type(request, EVENTS, *LINES)
    return PROFILES if media_type == EVENTS else json_lines(media_type)


@dataclass(frozen=True)
class _Bulk:
    """A request for many lookups."""

    request: Request
    caller: Caller
    services: Services

    async def begin(self, kind: str, texts: list[str], options: Options) -> BulkSearch:
        """Prepare the search, which is paid once for an Idempotency-Key, however often it is repeated."""
        claim, caller = claim_of(self.request), self.caller
        reference = f"bulk/{claim.id if claim else new_id()}"
        payer = Payer(caller.account_id, reference, caller.credential_id if caller.kind == "key" else None)
        question = Question(kind, texts, looked_up(kind, options.fields), options.max_age)
        return await self.services.bulk_searches.prepare(question, payer)

    async def search(self, kind: str, texts: list[str], options: Options, form: Form | None) -> Response:
        """Return all answers as one document, or as a stream."""
        if form is not None:
            return await self.stream(kind, texts, options, form)
        search = await self.begin(kind, texts, options)
        results: list[orjson.Fragment] = []
        for number, answer in enumerate(await search.all()):
            results.append(orjson.Fragment(orjson.dumps(show_answer(kind, options, answer))))
            if number % LINES_IN_A_ROW == 0:
                await asyncio.sleep(0)
        answers = {"results": results, "credits_used": search.credits_used}
        return Response(orjson.dumps(answers), media_type=_JSON)

    async def stream(self, kind: str, texts: list[str], options: Options, form: Form) -> Response:
        """Return the answers as a stream."""
        search = await self.begin(kind, texts, options)
        credential = find_credential(self.request.scope["headers"]) or NO_CREDENTIAL
        answers = stream(self.services, credential, search, form, partial(show_answer, kind, options))
        return BulkStream(self.services.streams.take(self.caller.account_id), form, answers)


async def _bulk(request: Request, caller: Searcher, services: ServicesDep) -> _Bulk:
    return _Bulk(request, caller, services)


Bulk = Annotated[_Bulk, Depends(_bulk)]
SearchForm = Annotated[Form | None, Depends(_search_form)]


def _options(kind: str) -> Any:
    return options_among(field_names(kind))


# No type: some readers of OpenAPI take a stream as text, others as its events.
_EVENT = {"description": "Server-sent events; the `data` of each is JSON, that of the last is `[DONE]`."}
_EVENTS = {
    "schema": _EVENT,
    "example": 'data: {"total":1}\n\n'
    'data: {"query":"-","error":{"code":"invalid_domain","message":"This is not a domain name."}}\n\n'
    'data: {"credits_used":0}\n\ndata: [DONE]\n\n',
}
_SEARCH: Any = {
    "dependencies": [limit_requests("bulk"), Idempotent],
    "responses": {
        200: {
            "description": "The answers.",
            "content": {EVENTS: _EVENTS},
        },
        **problems("rate_limited", "too_many_streams", "idempotency_not_supported"),
    },
}
_PAID: Any = {**_SEARCH, "responses": {**_SEARCH["responses"], **problems("insufficient_credits")}}


@router.post("/bulk-company-search", **_PAID, response_model=CompanySearches)
async def search_companies(
    body: CompanyQueries, bulk: Bulk, form: SearchForm, options: Annotated[Options, _options("company")]
) -> Response:
    """Look up at most 100 companies by name or domain, each as one object with its people. 1 credit each.

    A failed query has an `error` instead of its answer, and costs nothing; two queries with the same meaning
    cost as one. With `Accept: text/event-stream` each answer is sent as soon as it is found.
    """
    return await bulk.search("company", body.queries, options, form)


@router.post("/bulk-web-search", **_PAID, response_model=WebSearches)
async def search_web_in_bulk(
    body: WebQueries, bulk: Bulk, form: SearchForm, options: Annotated[Options, _options("websearch")]
) -> Response:
    """Search the web for at most 100 queries. 1 credit each; otherwise like a bulk company search."""
    return await bulk.search("websearch", body.queries, options, form)


@router.post("/bulk-domain-search", **_PAID, response_model=DomainSearches)
async def search_domains(
    body: DomainQueries, bulk: Bulk, form: SearchForm, options: Annotated[Options, _options("domain")]
) -> Response:
    """Look up at most 100 domains. 1 credit each; otherwise like a bulk company search."""
    return await bulk.search("domain", body.queries, options, form)


@router.post("/bulk-ip-search", **_SEARCH, response_model=IpSearches)
async def search_ips(
    body: IpQueries, bulk: Bulk, form: SearchForm, options: Annotated[Options, _options("ip")]
) -> Response:
    """Look up at most 100 IP addresses. Free; otherwise like a bulk company search."""
    return await bulk.search("ip", body.queries, options, form)


_PROFILE = '{"email":"ada@example.com","first_name":"Ada","credits":1}'
_FAILURE = (
    '{"email":"no address","error":{"code":"invalid_email","message":"This is not an e-mail address."}}'
)
_SUMMARY = '"total":2,"found":1,"failed":1,"credits_used":1}'
_PROFILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The profiles, each as soon as it is there.",
        "content": {
            EVENTS: {
                "schema": _EVENT,
                "example": f': {{"total":2}}\n\ndata: {_PROFILE}\n\ndata: {_FAILURE}\n\n'
                f": {{{_SUMMARY}\n\ndata: [DONE]\n\n",
            },
            **{
                media_type: {
                    "schema": {"type": "string"},
                    "example": f'{_PROFILE}\n{_FAILURE}\n{{"type":"summary",{_SUMMARY}\n',
                }
                for media_type in LINES
            },
        },
    }
}


@router.post(
    "/agent/bulk-lookup",
    dependencies=[limit_requests("bulk"), NotIdempotent],
    responses={
        **_PROFILES,
        **problems("rate_limited", "too_many_streams", "insufficient_credits", "idempotency_not_supported"),
    },
    response_class=StreamingResponse,
)
async def look_up_emails(
    body: Emails,
    bulk: Bulk,
    form: Annotated[Form, Depends(_profile_form)],
    options: Annotated[Options, _options("email")],
) -> Response:
    """Look up at most 1,000 people by their e-mail addresses, as a stream. 1 credit for each that is known.

    Each line is a profile with its `email`, or `{email, error}`. As server-sent events the last is `[DONE]`,
    and totals and heartbeats are comments; with `Accept: application/jsonl` the last line is a summary. A
    stream without its last line is incomplete.
    """
    return await bulk.stream("email", body.emails, options, form)
