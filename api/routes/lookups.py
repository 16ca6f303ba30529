"""Lookups: the combined knowledge of all sources about a target, with the source of each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from api.deps import Authorisation, Caller, ServicesDep, require_scope, services_of
from api.http.idempotency import Idempotent, claim_of
from api.http.json_body import parse_json
from api.http.limits import check, limit_requests
from api.http.openapi import problems
from api.http.strict_route import Handler, StrictRoute
from api.schemas.lookup_bodies import (
    CompanyQuery,
    DarkwebQuery,
    DomainQuery,
    EmailQuery,
    IpQuery,
    PhoneQuery,
    UsernameQuery,
    WebSearchQuery,
)
from api.schemas.lookup_options import Options, options_among
from models.errors import FieldError, Invalid
from models.identifiers import new_id
from models.lookups.lookups import ProviderRow
from providers.breach.answer import BreachAnswer
from providers.company.answer import CompanyAnswer
from providers.darkweb.answer import DarkwebAnswer
from providers.domain.answer import DomainAnswer
from providers.email.answer import EmailAnswer
from providers.ip.answer import IpAnswer
from providers.lookup.billing import Payer
from providers.phone.answer import PhoneAnswer
from providers.registry import lookup_fields
from providers.username.answer import UsernameAnswer
from providers.validate.answer import ValidateAnswer
from providers.websearch.answer import WebSearchAnswer
from providers.websearch.kind import cut_results

Reader = Annotated[Caller, require_scope("lookups")]

# The routes that `_LookupRoute` answers without their functions, for requests that have a target alone.
# Path → the kind of lookup, the field of the body with the target, and the limit that counts requests.
_FREE_LOOKUPS = {
    "/api/agent/ip": ("ip", "ip", "ip"),
    "/api/agent/breaches": ("breach", "email", "breaches"),
    "/api/agent/validate": ("validate", "email", "lookups"),
    "/api/lookups/ip": ("ip", "ip", "ip"),
    "/api/lookups/breach": ("breach", "email", "breaches"),
    "/api/lookups/validate": ("validate", "email", "lookups"),
}
_authorise = Authorisation("lookups", session_only=False)


class _LookupRoute(StrictRoute):
    """Answers free lookups directly if a request leaves FastAPI nothing to check, which saves time."""

    def _handler(self) -> Handler:
        handle = super()._handler()
        if self.path not in _FREE_LOOKUPS:
            return handle
        kind, name, limit = _FREE_LOOKUPS[self.path]

        async def look_up(request: Request) -> Response:
            target = await _only_field(request, name)
            if target is None:
                return await handle(request)
            services = services_of(request)
            caller = await _authorise(request)
            await check(services, limit, str(caller.account_id), request=request)
            payer = _unpaid(caller)
            return _make_response(
                await Options().look_up(services, kind, target, pointer=f"/{name}", payer=payer)
            )

        return look_up


async def _only_field(request: Request, name: str) -> str | None:
    """Return the text in `name`, if it is the body's only field and there is no query string; or None."""
    if request.scope["query_string"]:
        return None
    raw = await request.body()
    body = parse_json(raw) if raw else None
    value = body.get(name) if isinstance(body, dict) and len(body) == 1 else None
    return value if isinstance(value, str) else None


router = APIRouter(prefix="/api", tags=["lookups"], route_class=_LookupRoute)

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def _mount_twice(name: str, kind: str, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
    """Mount an endpoint twice: `/api/agent/<name>` accepts keys, `/api/lookups/<kind>` sessions too."""

    def mount(endpoint: _Endpoint) -> _Endpoint:
        for path in (f"/agent/{name}", f"/lookups/{kind}"):
            router.post(path, **options)(endpoint)
        return endpoint

    return mount


def _unpaid(caller: Caller) -> Payer:
    """Return the owner of a free lookup."""
    return Payer(caller.account_id, "", caller.credential_id if caller.kind == "key" else None)


async def _payer(request: Request, caller: Reader) -> Callable[[], Payer]:
    """Return a function that returns the payer: an Idempotency-Key pays once, however often repeated."""

    def payer() -> Payer:
        claim = claim_of(request)
        reference = f"lookup/{claim.id if claim else new_id()}"
        return Payer(caller.account_id, reference, caller.credential_id if caller.kind == "key" else None)

    return payer


FREE = ("rate_limited", "all_providers_failed", "no_provider")
"""The codes of all lookups."""

PAID: Any = {
    "dependencies": [limit_requests("lookups"), Idempotent],
    "responses": problems("insufficient_credits", *FREE),
}
"""The common options of the routes of lookups that cost credits."""

Paying = Annotated[Callable[[], Payer], Depends(_payer)]
"""Called in the endpoint, because the claim that the lookup is paid under is unknown before."""


def either(name: str, text: str | None, query: str | None) -> tuple[str, str]:
    """Return the text of the field `name`, or else of `query`; and the pointer to it.

    Raises:
        Invalid: if there is neither.
    """
    if text is not None:
        return text, f"/{name}"
    if query is None:
        raise Invalid([FieldError(f"/{name}", "required", "This field is required.")])
    return query, "/query"


def _make_response(answer: dict[str, Any]) -> Response:
    """Return the response. An answer was validated source by source when it arrived, so not again here."""
    return Response(orjson.dumps(answer), media_type="application/json")


def _options(kind: str) -> Any:
    return options_among(lookup_fields()[kind])


class Providers(BaseModel):
    """All sources."""

    providers: list[ProviderRow] = Field(
        description="The sources, each once for every kind of lookup that it is asked for."
    )


# `_LookupRoute` answers requests that have a target alone.
@_mount_twice(
    "ip", "ip", dependencies=[limit_requests("ip")], responses=problems(*FREE), response_model=IpAnswer
)
async def look_up_ip(
    body: IpQuery, caller: Reader, services: ServicesDep, options: Annotated[Options, _options("ip")]
) -> Response:
    """Look up an IPv4 or IPv6 address: location, owner, and reports against it. Free."""
    return _make_response(await options.look_up(services, "ip", body.ip, payer=_unpaid(caller)))


# `_LookupRoute` answers requests that have a target alone.
@_mount_twice(
    "breaches",
    "breach",
    dependencies=[limit_requests("breaches")],
    responses=problems(*FREE),
    response_model=BreachAnswer,
)
async def check_breaches(
    body: EmailQuery, caller: Reader, services: ServicesDep, options: Annotated[Options, _options("breach")]
) -> Response:
    """Find the known breaches that an e-mail address is in. Free."""
    payer = _unpaid(caller)
    return _make_response(
        await options.look_up(services, "breach", body.email, pointer="/email", payer=payer)
    )


@_mount_twice("lookup", "email", **PAID, response_model=EmailAnswer)
async def look_up_email(
    body: EmailQuery, payer: Paying, services: ServicesDep, options: Annotated[Options, _options("email")]
) -> Response:
    """Find the person behind an e-mail address, and data on the address. 1 credit if the person is known."""
    return _make_response(await options.look_up(services, "email", body.email, payer=payer()))


# `_LookupRoute` answers requests that have a target alone.
@_mount_twice(
    "validate",
    "validate",
    dependencies=[limit_requests("lookups")],
    responses=problems(*FREE),
    response_model=ValidateAnswer,
)
async def validate_email(
    body: EmailQuery, caller: Reader, services: ServicesDep, options: Annotated[Options, _options("validate")]
) -> Response:
    """Check whether an e-mail address can receive mail. Other text is `invalid`, not an error. Free."""
    payer = _unpaid(caller)
    return _make_response(
        await options.look_up(services, "validate", body.email, pointer="/email", payer=payer)
    )


@_mount_twice("phone", "phone", **PAID, response_model=PhoneAnswer)
async def look_up_phone(
    body: PhoneQuery, payer: Paying, services: ServicesDep, options: Annotated[Options, _options("phone")]
) -> Response:
    """Look up a phone number: its country, carrier, sort, and further data. 1 credit if it is valid."""
    return _make_response(await options.look_up(services, "phone", body.read_target(), payer=payer()))


@_mount_twice("domain", "domain", **PAID, response_model=DomainAnswer)
async def look_up_domain(
    body: DomainQuery, payer: Paying, services: ServicesDep, options: Annotated[Options, _options("domain")]
) -> Response:
    """Look up a domain: registration, DNS, certificate, hosting, and reports against it. 1 credit."""
    text, pointer = either("domain", body.domain, body.query)
    return _make_response(await options.look_up(services, "domain", text, pointer=pointer, payer=payer()))


@_mount_twice("username", "username", **PAID, response_model=UsernameAnswer)
async def look_up_username(
    body: UsernameQuery,
    payer: Paying,
    services: ServicesDep,
    options: Annotated[Options, _options("username")],
) -> Response:
    """Find the sites that have an account of a user name. 1 credit."""
    text, pointer = either("username", body.username, body.query)
    return _make_response(await options.look_up(services, "username", text, pointer=pointer, payer=payer()))


@_mount_twice("websearch", "websearch", **PAID, response_model=WebSearchAnswer)
async def search_web(
    body: WebSearchQuery,
    payer: Paying,
    services: ServicesDep,
    options: Annotated[Options, _options("websearch")],
) -> Response:
    """Search the web, with all engines that are set up. 1 credit."""
    answer = await options.look_up(services, "websearch", body.query, pointer="/query", payer=payer())
    return _make_response(cut_results(answer, body.limit))


@_mount_twice("company", "company", **PAID, response_model=CompanyAnswer)
async def search_company(
    body: CompanyQuery, payer: Paying, services: ServicesDep, options: Annotated[Options, _options("company")]
) -> Response:
    """Look up a company by name or domain: its profile, and the people there. 1 credit a person."""
    text, pointer = either("company", body.company, body.query)
    return _make_response(
        await replace(options, limit=body.limit).look_up(
            services, "company", text, pointer=pointer, payer=payer()
        )
    )


@_mount_twice("darkweb", "darkweb", **PAID, response_model=DarkwebAnswer)
async def search_darkweb(
    body: DarkwebQuery, payer: Paying, services: ServicesDep, options: Annotated[Options, _options("darkweb")]
) -> Response:
    """Search the dark web for an e-mail address, a domain, an IP address or words. 1 credit a block."""
    return _make_response(
        await replace(options, offset=body.offset).look_up(
            services, "darkweb", body.query, pointer="/query", payer=payer()
        )
    )


@router.get("/providers")
async def list_providers(caller: Reader, services: ServicesDep) -> Providers:
    """List every lookup source: its state, fields and licence, and how well it has worked lately."""
    return Providers(providers=await services.lookups.describe())
