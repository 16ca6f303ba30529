"""Tools that look a target up, one for each kind: their arguments are fields of the bodies of the routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from api.mcp.answers import make_result, schema_of
from api.mcp.calling import Ctx, InternalClient
from api.mcp.toolbox import Full, Key, Toolbox
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
from providers.breach.answer import BreachAnswer
from providers.company.answer import CompanyAnswer
from providers.darkweb.answer import DarkwebAnswer
from providers.domain.answer import DomainAnswer
from providers.email.answer import EmailAnswer
from providers.ip.answer import IpAnswer
from providers.phone.answer import PhoneAnswer
from providers.username.answer import UsernameAnswer
from providers.validate.answer import ValidateAnswer
from providers.websearch.answer import WebSearchAnswer

toolbox = Toolbox()

_HINT = "name `fields` to get these alone, or set `full`"
# All other members hold text from sources, which may come from strangers.
_OURS = frozenset({"credits", "cached", "partial", "verdict", "sources"})
_ANSWERED = frozenset({"ok", "empty", "cached"})

Fields = Annotated[
    list[str] | None,
    Field(description="Only these fields or blocks of the answer, dotted, such as location.city or threat."),
]


@dataclass(frozen=True)
class _Lookup:
    """A tool that looks a target up.

    Attributes:
        title: for people.
        about: what models read.
        kind: of the lookup, the route's name below `/api/lookups/`.
        body: the route's body.
        target: the field of the body that has the target.
        answer: what the route answers.
        further: the other fields of the body that are arguments, with their defaults.
        paid: whether it costs credits, so that a call may have a key of idempotency.
        chooses: whether `fields` may choose among the members of the answer.
    """

    title: str
    about: str
    kind: str
    body: type[BaseModel]
    target: str
    answer: type[BaseModel]
    further: tuple[tuple[str, Any], ...] = ()
    paid: bool = True
    chooses: bool = True

    def parameters(self) -> Iterator[Parameter]:
        """Yield the arguments of the tool: fields of the body, and how much of the answer to give."""
        yield self._parameter(self.target, Parameter.empty)
        for name, default in self.further:
            yield self._parameter(name, default)
        if self.chooses:
            yield _keyword("fields", Fields, None)
        yield _keyword("full", Full, False)
        if self.paid:
            yield _keyword("idempotency_key", Key, None)

    def _parameter(self, name: str, default: Any) -> Parameter:
        field = self.body.model_fields[name]
        # The target is optional in bodies that take it in either of two fields.
        annotation: Any = str if name == self.target else field.annotation
        described = Annotated[annotation, *field.metadata, Field(description=field.description)]
        return _keyword(name, described, default)

    async def call(
        self,
        ctx: Ctx,
        *,
        fields: list[str] | None = None,
        full: bool = False,
        idempotency_key: str | None = None,
        **arguments: Any,
    ) -> CallToolResult:
        """Look up by the route, as any client does."""
        body = {name: value for name, value in arguments.items() if value is not None}
        chosen = ",".join(fields) if fields else None
        answer = await InternalClient(ctx).post(
            f"/api/lookups/{self.kind}", body, key=idempotency_key, fields=chosen
        )
        foreign = [name for name in answer if name not in _OURS]
        return make_result(
            answer if full else keep_essential(answer), full=full, hint=_HINT, untrusted=foreign
        )


def _keyword(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def keep_essential(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the origins of its values; of its sources, only those without an answer."""
    silent = [
        {name: one[name] for name in ("name", "status", "detail", "retry_after") if name in one}
        for one in answer["providers"]
        if one["status"] not in _ANSWERED
    ]
    shown = {name: value for name, value in answer.items() if name not in ("sources", "providers")}
    return shown | {"providers": silent}


def _declare(name: str, lookup: _Lookup) -> None:
    """Add the tool, as if its arguments were written as those of a function."""

    async def look_up(ctx: Ctx, **arguments: Any) -> CallToolResult:
        return await lookup.call(ctx, **arguments)

    look_up.__name__, look_up.__doc__ = name, lookup.about
    look_up.__signature__ = Signature([*lookup.parameters()])  # pyright: ignore[reportFunctionMemberAccess]
    toolbox.tool(lookup.title, schema_of(lookup.answer), reads=True, outside=True)(look_up)


FEW = 10
"""The results that an agent gets unless it asks for more: they fill its context."""

_LOOKUPS = {
    "lookup_ip": _Lookup(
        "Look up an IP address",
        "Look up an IP address: location, owner, VPN, proxy or Tor use, and reports against it. Free.",
        "ip",
        IpQuery,
        "ip",
        IpAnswer,
        paid=False,
    ),
    "lookup_breach": _Lookup(
        "Check an e-mail for breaches",
        "Find the known data breaches that an e-mail address is in, and the exposed data. Free.",
        "breach",
        EmailQuery,
        "email",
        BreachAnswer,
        paid=False,
    ),
    "lookup_validate": _Lookup(
        "Validate an e-mail address",
        "Check whether an e-mail address can receive mail, is disposable, free or a role account. Free.",
        "validate",
        EmailQuery,
        "email",
        ValidateAnswer,
        paid=False,
    ),
    "lookup_email": _Lookup(
        "Look up an e-mail address",
        "Find the person behind an e-mail address: name, company, role, profiles.\n\n"
        "1 credit if the person is known.",
        "email",
        EmailQuery,
        "email",
        EmailAnswer,
    ),
    "lookup_phone": _Lookup(
        "Look up a phone number",
        "Look up a phone number's country, carrier, line type and validity. 1 credit if it is valid.",
        "phone",
        PhoneQuery,
        "phone",
        PhoneAnswer,
        further=(("country", None),),
    ),
    "lookup_domain": _Lookup(
        "Look up a domain",
        "Look up a domain's registration, DNS, certificate, hosting, and reports against it. 1 credit.",
        "domain",
        DomainQuery,
        "domain",
        DomainAnswer,
    ),
    "lookup_username": _Lookup(
        "Find a user name",
        "Find the sites that have an account of this name. 1 credit.",
        "username",
        UsernameQuery,
        "username",
        UsernameAnswer,
    ),
    "lookup_websearch": _Lookup(
        "Search the web",
        "Search the web with all engines that are set up. 1 credit.",
        "websearch",
        WebSearchQuery,
        "query",
        WebSearchAnswer,
        further=(("limit", FEW),),
        chooses=False,
    ),
    "lookup_company": _Lookup(
        "Look up a company",
        "Look up a company's profile in registries, and people who work there. 1 credit a person found.",
        "company",
        CompanyQuery,
        "company",
        CompanyAnswer,
        further=(("limit", FEW),),
    ),
    "lookup_darkweb": _Lookup(
        "Search the dark web",
        "Search the dark web: leaks, pastes, forums, markets. 1 credit for each 100 mentions found.\n\n"
        "Further pages of one search are free for a day.",
        "darkweb",
        DarkwebQuery,
        "query",
        DarkwebAnswer,
        further=(("offset", 0),),
        chooses=False,
    ),
}
for _name, _lookup in _LOOKUPS.items():
    _declare(_name, _lookup)
