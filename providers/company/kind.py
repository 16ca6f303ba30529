"""The kind `company`: its sources in the order of precedence, and how their fields become one answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from providers.company import (
    abstractcompany,
    companieshouse,
    gleif,
    huntercompany,
    hunterdomain,
    sec,
    wikidata,
)
from providers.company.answer import CompanyAnswer, Profile
from providers.company.identity import normalise, resolve
from providers.sources.base import Fields
from providers.sources.kind import Derived, Kind

PEOPLE, MOST_PEOPLE = 25, 100


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return those who run the company, each once, if no source reports people.

    A person with several roles gets the first in alphabetical order, because the order in a register has no
    meaning.
    """
    roles: dict[str, list[str]] = {}
    for officer in fields.get("profile.officers", []):
        roles.setdefault(officer["name"], []).extend([officer["role"]] if officer["role"] else [])
    people = [
        {"email": None, "name": name, "role": min(own, default=None), "linkedin": None}
        for name, own in roles.items()
    ]
    return {"results": (people, "profile.officers")} if people else {}


def cut_people(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Return the requested number of people."""
    people = fields.get("results", [])[: PEOPLE if limit is None else limit]
    return {**fields, "results": people, "total": len(people)}


def cost(fields: Mapping[str, Any]) -> int:
    """Return 1 for each person."""
    return len(fields.get("results", []))


KIND = Kind(
    name="company",
    sources=(
        companieshouse.SOURCE,
        wikidata.SOURCE,
        sec.SOURCE,
        gleif.SOURCE,
        abstractcompany.SOURCE,
        huntercompany.SOURCE,
        hunterdomain.SOURCE,
    ),
    answer=CompanyAnswer,
    example="Example Bank plc",
    rules={"candidates": "union", "profile.name": "company"},
    normalise=normalise,
    echo="company",
    derive=derive,
    price=MOST_PEOPLE,
    cost=cost,
    # Every field of a company requires that the company is identified first.
    origins={
        "results": ("profile.officers", "candidates"),
        "total": ("results",),
        **dict.fromkeys(("profile", *(f"profile.{name}" for name in Profile.model_fields)), ("candidates",)),
    },
    resolve=resolve,
    cut=cut_people,
)
