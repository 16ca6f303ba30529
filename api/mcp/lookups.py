"""Tools that look a target up, one for each kind."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from api.mcp.answers import make_result, schema_of
from api.mcp.calling import Ctx, InternalClient
from api.mcp.toolbox import Full, Key, Toolbox
from providers.breach.answer import BreachAnswer
from providers.company.answer import CompanyAnswer
from providers.company.kind import MOST_PEOPLE
from providers.darkweb.answer import DarkwebAnswer
from providers.domain.answer import DomainAnswer
from providers.email.answer import EmailAnswer
from providers.ip.answer import IpAnswer
from providers.phone.answer import PhoneAnswer
from providers.username.answer import UsernameAnswer
from providers.validate.answer import ValidateAnswer
from providers.websearch.answer import WebSearchAnswer
from providers.websearch.kind import LIMIT

toolbox = Toolbox()

_HINT = "name `fields` to get these alone, or set `full`"
# All other members hold text from sources, which may come from strangers.
_OURS = frozenset({"credits", "cached", "partial", "verdict", "sources"})
_ANSWERED = frozenset({"ok", "empty", "cached"})

Fields = Annotated[
    list[str] | None,
    Field(description="Only these fields or blocks of the answer, dotted, such as location.city or threat."),
]


async def _look_up(
    ctx: Ctx, path: str, body: dict[str, Any], fields: list[str] | None, full: bool, key: str | None = None
) -> CallToolResult:
    chosen = ",".join(fields) if fields else None
    answer = await InternalClient(ctx).post(f"/api/agent/{path}", body, key=key, fields=chosen)
    foreign = [name for name in answer if name not in _OURS]
    return make_result(answer if full else _essential(answer), full=full, hint=_HINT, untrusted=foreign)


def _essential(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the origins of its values; of its sources, only those without an answer."""
    silent = [
        {name: one[name] for name in ("name", "status", "detail", "retry_after") if name in one}
        for one in answer["providers"]
        if one["status"] not in _ANSWERED
    ]
    shown = {name: value for name, value in answer.items() if name not in ("sources", "providers")}
    return shown | {"providers": silent}


@toolbox.tool("Look up an IP address", schema_of(IpAnswer), reads=True, outside=True)
async def lookup_ip(
    ip: Annotated[str, Field(description="An IPv4 or IPv6 address.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
) -> CallToolResult:
    """Look up an IP address: location, owner, VPN, proxy or Tor use, and reports against it. Free."""
    return await _look_up(ctx, "ip", {"ip": ip}, fields, full)


@toolbox.tool("Check an e-mail for breaches", schema_of(BreachAnswer), reads=True, outside=True)
async def lookup_breach(
    email: Annotated[str, Field(description="An e-mail address.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
) -> CallToolResult:
    """Find the known data breaches that an e-mail address is in, and the exposed data. Free."""
    return await _look_up(ctx, "breaches", {"email": email}, fields, full)


@toolbox.tool("Validate an e-mail address", schema_of(ValidateAnswer), reads=True, outside=True)
async def lookup_validate(
    email: Annotated[str, Field(description="A text that may be an e-mail address.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
) -> CallToolResult:
    """Check whether an e-mail address can receive mail, is disposable, free or a role account. Free."""
    return await _look_up(ctx, "validate", {"email": email}, fields, full)


@toolbox.tool("Look up an e-mail address", schema_of(EmailAnswer), reads=True, outside=True)
async def lookup_email(
    email: Annotated[str, Field(description="An e-mail address.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Find the person behind an e-mail address: name, company, role, profiles.

    1 credit if the person is known.
    """
    return await _look_up(ctx, "lookup", {"email": email}, fields, full, idempotency_key)


@toolbox.tool("Look up a phone number", schema_of(PhoneAnswer), reads=True, outside=True)
async def lookup_phone(
    phone: Annotated[
        str, Field(description="A phone number; with its country code unless `country` is given.")
    ],
    ctx: Ctx,
    country: Annotated[
        str | None, Field(description="The country of a number without its code: two letters, such as DE.")
    ] = None,
    fields: Fields = None,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Look up a phone number's country, carrier, line type and validity. 1 credit if it is valid."""
    body = {"phone": phone} | ({} if country is None else {"country": country})
    return await _look_up(ctx, "phone", body, fields, full, idempotency_key)


@toolbox.tool("Look up a domain", schema_of(DomainAnswer), reads=True, outside=True)
async def lookup_domain(
    domain: Annotated[str, Field(description="A domain name, such as example.com.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Look up a domain's registration, DNS, certificate, hosting, and reports against it. 1 credit."""
    return await _look_up(ctx, "domain", {"domain": domain}, fields, full, idempotency_key)


@toolbox.tool("Find a user name", schema_of(UsernameAnswer), reads=True, outside=True)
async def lookup_username(
    username: Annotated[str, Field(description="A user name, without @.")],
    ctx: Ctx,
    fields: Fields = None,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Find the sites that have an account of this name. 1 credit."""
    return await _look_up(ctx, "username", {"username": username}, fields, full, idempotency_key)


@toolbox.tool("Search the web", schema_of(WebSearchAnswer), reads=True, outside=True)
async def lookup_websearch(
    query: Annotated[str, Field(description="What to search for.")],
    ctx: Ctx,
    limit: Annotated[int, Field(ge=1, le=LIMIT, description="How many results to give at most.")] = 10,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Search the web with all engines that are set up. 1 credit."""
    return await _look_up(ctx, "websearch", {"query": query, "limit": limit}, None, full, idempotency_key)


@toolbox.tool("Look up a company", schema_of(CompanyAnswer), reads=True, outside=True)
async def lookup_company(
    company: Annotated[str, Field(description="A company's name or domain.")],
    ctx: Ctx,
    limit: Annotated[
        int, Field(ge=1, le=MOST_PEOPLE, description="How many people to give, and to pay for, at most.")
    ] = 10,
    fields: Fields = None,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Look up a company's profile in registries, and people who work there. 1 credit a person found."""
    return await _look_up(ctx, "company", {"company": company, "limit": limit}, fields, full, idempotency_key)


@toolbox.tool("Search the dark web", schema_of(DarkwebAnswer), reads=True, outside=True)
async def lookup_darkweb(
    query: Annotated[str, Field(description="An e-mail address, a domain, an IP address or words.")],
    ctx: Ctx,
    offset: Annotated[
        int, Field(ge=0, le=100_000, description="How many mentions to leave out; a page has 20.")
    ] = 0,
    full: Full = False,
    idempotency_key: Key = None,
) -> CallToolResult:
    """Search the dark web: leaks, pastes, forums, markets. 1 credit for each 100 mentions found.

    Further pages of one search are free for a day.
    """
    return await _look_up(ctx, "darkweb", {"query": query, "offset": offset}, None, full, idempotency_key)
