"""The answers of bulk searches: a query and its result or error."""

from __future__ import annotations

from typing import Any, get_origin

from pydantic import BaseModel, Field

from api.schemas.lookup_options import Options
from models.errors import DomainError
from models.lookups.lookups import Block, LookupAnswer
from providers.company.answer import Candidate, Person, Profile
from providers.domain.answer import DomainAnswer
from providers.ip.answer import IpAnswer
from providers.registry import lookup_fields
from providers.websearch.answer import WebSearchAnswer
from providers.websearch.kind import SHOWN, cut_results
from services.bulk_searches import Answer


class BulkCompany(Profile, LookupAnswer):
    """One company in a single object. Its `name` is present whichever `fields` are chosen."""

    size: int | None = Field(description="The same as `employee_count`.")
    people: list[Person] = Field(description="People at the company.")
    candidates: list[Candidate] = Field(
        description="The companies that the query may mean, where it is ambiguous."
    )


class QueryFailure(Block):
    """The reason why a query has no answer; it cost nothing."""

    code: str = Field(description="What went wrong, for programs: stable, snake_case.")
    message: str = Field(description="The same for people.")


class FailedQuery(Block):
    """A query without an answer."""

    query: str = Field(description="The query as it was given.")
    error: QueryFailure = Field(description="Why it failed.")


class CompanyFound(Block):
    """A query and its company."""

    query: str = Field(description="The query as it was given.")
    company: BulkCompany = Field(description="The company; its fields are null where none was found.")


class DomainFound(Block):
    """A query and its domain."""

    query: str = Field(description="The query as it was given.")
    domain: DomainAnswer = Field(description="What is known of it.")


class IpFound(Block):
    """A query and its address."""

    query: str = Field(description="The query as it was given.")
    ip: IpAnswer = Field(description="What is known of it.")


_RESULTS = "An entry for each query, in their order."
_CREDITS_USED = "What all of it cost."


class CompanySearches(BaseModel):
    """The answers of a bulk company search."""

    results: list[CompanyFound | FailedQuery] = Field(description=_RESULTS)
    credits_used: int = Field(description=_CREDITS_USED)


class WebSearches(BaseModel):
    """The answers of a bulk web search."""

    results: list[WebSearchAnswer | FailedQuery] = Field(description=_RESULTS)
    credits_used: int = Field(description=_CREDITS_USED)


class DomainSearches(BaseModel):
    """The answers of a bulk domain search."""

    results: list[DomainFound | FailedQuery] = Field(description=_RESULTS)
    credits_used: int = Field(description=_CREDITS_USED)


class IpSearches(BaseModel):
    """The answers of a bulk IP search."""

    results: list[IpFound | FailedQuery] = Field(description=_RESULTS)
    credits_used: int = Field(description=_CREDITS_USED)


_PATHS = {
    "size": "profile.employee_count",
    "people": "results",
    "candidates": "candidates",
    **{name: f"profile.{name}" for name in Profile.model_fields},
}
"""Field of `BulkCompany` → field of the lookup's answer."""

_NO_PROFILE: dict[str, Any] = {
    name: [] if get_origin(field.annotation) is list else None for name, field in Profile.model_fields.items()
}


def field_names(kind: str) -> set[str]:
    """Return the names allowed in `fields` of a bulk search."""
    return set(_PATHS) if kind == "company" else lookup_fields()[kind]


def looked_up(kind: str, fields: frozenset[str] | None) -> frozenset[str] | None:
    """Return the fields of the lookup's answer that those of a bulk search are made of; None for all."""
    if fields is None or kind != "company":
        return fields
    return frozenset(_PATHS[name] for name in (*fields, "name"))


def show_answer(kind: str, options: Options, answer: Answer) -> dict[str, Any]:
    """Return an answer in the form of the API: the text as it came, with the result or the error."""
    echo = "email" if kind == "email" else "query"
    outcome = answer.outcome
    if isinstance(outcome, DomainError):
        return {echo: answer.text, "error": {"code": outcome.code, "message": outcome.message}}
    found = outcome.answer(shown=options.shown, fields=looked_up(kind, options.fields))
    if answer.repeated:
        found["credits"] = 0
    if kind == "company":
        return {echo: answer.text, "company": _company(found, options.fields)}
    if kind in ("domain", "ip"):
        return {echo: answer.text, kind: found}
    if kind == "websearch":
        found = cut_results(found, SHOWN)
    return found | {echo: answer.text}


def _company(found: dict[str, Any], fields: frozenset[str] | None) -> dict[str, Any]:
    """Return the answer of a company search as a single object."""
    profile: dict[str, Any] = _NO_PROFILE | (found.get("profile") or {})
    flat: dict[str, Any] = {
        **profile,
        "size": profile["employee_count"],
        "people": found.get("results"),
        "candidates": found.get("candidates"),
    }
    if fields is not None:
        flat = {name: value for name, value in flat.items() if name in fields or name == "name"}
    for name in ("sources", "conflicts"):
        found[name] = {
            field: found[name][path]
            for field, path in _PATHS.items()
            if field in flat and path in found[name]
        }
    return flat | {name: found[name] for name in LookupAnswer.model_fields}
