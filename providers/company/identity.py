"""The identification of a company: names and domains → the ids of that one company in each source.

In a first round the sources are searched by name. Results are one company if they share an id, never if they
only share a name. If one company stands out, the sources are asked about it by its ids alone; otherwise all
are candidates.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from models import domains
from models.errors import FieldError, Invalid
from models.names import company_name, folded_name, plain_name
from providers.sources.base import Fields, Query
from providers.sources.kind import Resolution

_SHORTEST, _LONGEST = 1, 160
_MOST_CANDIDATES = 10
_NO_TEXT = frozenset({"Cc", "Cs", "Cn", "Co"})
# Points of a hundred: for the whole name, for one of its other names, for the name without its legal form;
# and the points that each further source adds. A leader by less than `_LEAD` does not stand out.
_WHOLE, _OTHER, _BARE, _CONFIRMED = 90, 85, 80, 10
_LEAD = 10
_CERTAIN = 100


@dataclass(frozen=True)
class WantedCompany:
    """The target of a search: a name, or the company of a domain."""

    name: str
    domain: str | None = None


@dataclass(frozen=True)
class Company:
    """One company, by its ids: a Wikidata item, an LEI, the SEC's and Companies House's number, a domain."""

    wikidata: str | None = None
    lei: str | None = None
    cik: str | None = None
    companies_house: str | None = None
    domain: str | None = None


_IDS = tuple(field.name for field in fields(Company))


def normalise(text: str, pointer: str) -> Query:
    """Return the query for a company's name with normalised spaces, or for a registered domain.

    Raises:
        Invalid: if `text` is neither.
    """
    if any(unicodedata.category(character) in _NO_TEXT for character in text.strip()):
        raise _invalid(pointer, "This has control characters in it")
    name = unicodedata.normalize("NFC", " ".join(text.split()))
    if not _SHORTEST <= len(name) <= _LONGEST or not plain_name(name):
        raise _invalid(pointer, f"A company's name has {_SHORTEST} to {_LONGEST} characters")
    if "://" in name:
        raise _invalid(pointer, "This is a URL; only its domain belongs here")
    if "@" in name and " " not in name:
        raise _invalid(pointer, "This is an e-mail address; only its domain belongs here")
    domain = None if " " in name else find_registered_domain(name)
    if domain is not None:
        return Query("company", domain, WantedCompany(domain.partition(".")[0], domain))
    return Query("company", folded_name(name), WantedCompany(name), name)


def _invalid(pointer: str, complaint: str) -> Invalid:
    message = f"{complaint}; give a name or a domain, such as Example Bank plc or example.com."
    return Invalid([FieldError(pointer, "invalid_company", message)])


def find_registered_domain(host: str | None) -> str | None:
    """Return the registered domain that a host belongs to, or None."""
    if host is None or "." not in host:
        return None
    try:
        return domains.parse_domain(host, "").registered
    except Invalid:
        return None


def ask_by(name: str) -> Callable[[Query], Query]:
    """Return an `asks` for a source that knows companies by the id `name` alone."""

    def asks(query: Query) -> Query:
        if isinstance(query.value, WantedCompany):
            return query
        return replace(query, text=f"{name}:{getattr(query.value, name)}")

    return asks


def likeness(wanted: str, name: str, others: tuple[str, ...] = ()) -> int:
    """Return points of a hundred for a company with these names; 0 if it is another company."""
    if plain_name(wanted) == plain_name(name):
        return _WHOLE
    if plain_name(wanted) in map(plain_name, others):
        return _OTHER
    return _BARE if company_name(wanted) in map(company_name, (name, *others)) else 0


def candidate(
    wanted: WantedCompany,
    name: str,
    ids: Company,
    *,
    country: str | None = None,
    description: str | None = None,
    others: tuple[str, ...] = (),
) -> dict[str, Any] | None:
    """Return a search result as a candidate of the answer; None if it is another company."""
    if wanted.domain is not None:
        points = _CERTAIN if ids.domain == wanted.domain else 0
    else:
        points = likeness(wanted.name, name, others)
    if points == 0:
        return None
    told = {"name": name, "country": country, "description": description, "score": points / 100}
    return told | asdict(ids)


def candidates(found: Iterable[dict[str, Any] | None]) -> Fields:
    """Return a source's candidates, without None, as its fields."""
    wanted = [one for one in found if one is not None]
    return {"candidates": wanted} if wanted else {}


def resolve(query: Query, answers: Mapping[str, Fields], complete: bool) -> Resolution:
    """Return the one company that stands out among the results, or else all of them as candidates.

    While a source is silent, none stands out, because that source may know the right one.
    """
    found = [(source, one) for source, told in answers.items() for one in told.get("candidates", [])]
    groups = _group_results(found)
    groups.sort(key=lambda group: -group.points)
    if groups and complete and (len(groups) == 1 or groups[0].points - groups[1].points >= _LEAD):
        return Resolution(_exact(groups[0].ids), {})
    left: dict[str, Fields] = {}
    for group in groups[:_MOST_CANDIDATES]:
        left.setdefault(group.source, {"candidates": []})["candidates"].append(group.candidate)
    return Resolution(_exact(Company(domain=query.value.domain)), left)


def _exact(ids: Company) -> Query:
    text = " ".join(f"{name}:{value}" for name, value in asdict(ids).items() if value)
    return Query("company", text, ids)


class _Group:
    """Results of several sources that are one company."""

    def __init__(self, source: str, found: dict[str, Any]) -> None:
        self.source = source
        self._sources = {source}
        self.candidate = dict(found)
        self._points = round(found["score"] * 100)

    @property
    def points(self) -> int:
        return min(_CERTAIN, self._points + _CONFIRMED * (len(self._sources) - 1))

    @property
    def ids(self) -> Company:
        return Company(**{name: self.candidate[name] for name in _IDS})

    def has(self, found: Mapping[str, Any]) -> bool:
        """Return whether `found` shares an id with the group and contradicts none."""
        pairs = {name: (self.candidate[name], found[name]) for name in _IDS}
        shared = any(one is not None and one == other for one, other in pairs.values())
        return shared and not any(
            one != other for name, (one, other) in pairs.items() if name != "domain" and one and other
        )

    def add(self, source: str, found: Mapping[str, Any]) -> None:
        self._sources.add(source)
        self._points = max(self._points, round(found["score"] * 100))
        for name, value in found.items():
            if self.candidate[name] is None:
                self.candidate[name] = value
        self.candidate["score"] = self.points / 100


def _group_results(found: list[tuple[str, dict[str, Any]]]) -> list[_Group]:
    """Group the results by company; those with more ids come first, because the others join them."""
    groups: list[_Group] = []
    for source, one in sorted(found, key=lambda pair: -sum(pair[1][name] is not None for name in _IDS)):
        group = next((group for group in groups if group.has(one)), None)
        if group is None:
            groups.append(_Group(source, one))
        else:
            group.add(source, one)
    return groups
