"""The kind `email`: its sources in the order of precedence, and how their fields become one profile.

What people publish about themselves comes first. The profile describes the person whom the first source
names. The sources of the kind `breach` are also used here, under `breach`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from providers.breach.catalogue import add_titles
from providers.breach.kind import KIND as BREACH
from providers.email import (
    abstractemail,
    disposable,
    employer,
    freemail,
    github,
    gravatar,
    hunter,
    hunterperson,
    maildomain,
    mx,
    openpgp,
    people,
    roles,
)
from providers.email.answer import EmailAnswer
from providers.sources import verdicts
from providers.sources.base import Fields
from providers.sources.email_address import normalise
from providers.sources.kind import Derived, Kind

_BREACHES = {"breaches": "breach.count"} | {
    name: f"breach.{name}" for name in ("services", "exposed_data", "spam_lists", "retired")
}
_SOURCES = (
    disposable.SOURCE,
    roles.SOURCE,
    freemail.SOURCE,
    maildomain.SOURCE,
    gravatar.SOURCE,
    github.SOURCE,
    openpgp.SOURCE,
    hunterperson.SOURCE,
    mx.SOURCE,
    hunter.SOURCE,
    add_titles(abstractemail.SOURCE, "breach.services"),
    employer.WIKIDATA,
    employer.ABSTRACT,
    *(replace(source, places=_BREACHES) for source in BREACH.sources),
)
_PEOPLE = frozenset(source.spec.name for source in _SOURCES if "name" in source.fields)
_SERVICES = {"gravatar": "Gravatar", "github": "GitHub", "openpgp": "keys.openpgp.org"}
_VALIDITY = ("mx_found", "is_disposable", "is_role_account")
# Fields that describe the address and not the person. They alone are not charged.
_OF_THE_ADDRESS = frozenset(
    {
        "email", "validity", "is_disposable", "is_role_account", "is_free_provider", "mx_found",
        "company_domain", "industry", "company_size", "breach.count", "breach.services",
        "breach.exposed_data", "breach.spam_lists", "breach.retired", "registered_services.count",
        "registered_services.asked", "checks.syntax", "checks.domain", "checks.mx", "checks.mailbox",
    }
)  # fmt: skip


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return the fields that follow from those of the sources."""
    found: dict[str, tuple[Any, str | None]] = {"checks.syntax": (True, None)}
    same = (("role", "job_role"), ("current_location", "location"), ("checks.mx", "mx_found"))
    for path, origin in same:
        if origin in fields:
            found[path] = (fields[origin], origin)
    for block in ("breach", "registered_services"):
        if f"{block}.services" in fields:
            found[f"{block}.count"] = (len(fields[f"{block}.services"]), f"{block}.services")
    return found | validity(fields)


def validity(fields: Mapping[str, Any]) -> dict[str, tuple[Any, str | None]]:
    """Return whether mail is expected to arrive, without sending any, and the field this follows from."""
    if fields.get("mx_found") is False:
        return {"validity": ("invalid", "mx_found")}
    for path in ("is_disposable", "is_role_account"):
        if fields.get(path):
            return {"validity": ("risky", path)}
    return {"validity": ("valid", "mx_found") if fields.get("mx_found") else ("unknown", None)}


def drop_contradicted(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Return all fields but those that other fields contradict.

    An address that receives mail is still risky if it is disposable or a role account. The mail domain is not
    the company's if a source reports that everybody can have an address there.
    """
    if fields["validity"] == "valid" and validity(fields)["validity"][0] == "risky":
        fields = fields | {"validity": "risky"}
    shared = fields.get("is_free_provider") or fields.get("is_disposable")
    if not shared or fields.get("company_domain") != fields["email"].rpartition("@")[2]:
        return fields
    return {path: value for path, value in fields.items() if path != "company_domain"}


def cost(fields: Mapping[str, Any]) -> int:
    """Return one credit if anything is known about the person."""
    return int(not fields.keys() <= _OF_THE_ADDRESS)


KIND = Kind(
    name="email",
    sources=_SOURCES,
    answer=EmailAnswer,
    example="ada@example.com",
    rules={
        "is_disposable": "any_true",
        "is_role_account": "any_true",
        "is_free_provider": "any_true",
        "languages": "union",
        "company": "company",
        "registered_services.services": "union_by_name",
        "other_people": "union",
        **{place: BREACH.rules[path] for path, place in _BREACHES.items()},
    },
    apart=partial(people.apart, people=_PEOPLE),
    asked={"registered_services.asked": _SERVICES},
    together=(
        frozenset({"name", "first_name", "last_name"}),
        frozenset({"location", "country", "city"}),
        frozenset({"job_role", "seniority", "department"}),
        frozenset({"industry", "company_size"}),
    ),
    normalise=partial(normalise, "email"),
    echo="email",
    derive=derive,
    price=1,
    cost=cost,
    signs=verdicts.EMAIL,
    cut=drop_contradicted,
    origins={
        # The names decide whose they are.
        **dict.fromkeys((people.OTHERS, "socials", *people.PERSONAL), ("name",)),
        "company_domain": ("name", "is_free_provider", "is_disposable"),
        "validity": _VALIDITY,
        "checks.mx": ("mx_found",),
        "role": ("job_role",),
        "current_location": ("location",),
        "breach.count": ("breach.services",),
        "registered_services.count": ("registered_services.services",),
        "registered_services.asked": ("registered_services.services",),
    },
    none={
        "breach.count": (0, "breach.services"),
        "registered_services.count": (0, "registered_services.services"),
    },
)
