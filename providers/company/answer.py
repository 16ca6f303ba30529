"""The answer of a company search: people, one profile of one company, or the companies that it may be."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class Person(Block):
    """Someone at the company; `linkedin` is a URL."""

    email: str | None
    name: str | None
    role: str | None
    linkedin: str | None


class Officer(Block):
    """Someone who runs the company, as a register says; `appointed_on` is a date or a year."""

    name: str
    role: str | None
    appointed_on: str | None
    nationality: str | None


class Shareholder(Block):
    """Who owns or controls the company; in the UK a person with significant control."""

    name: str
    natures_of_control: list[str]
    nationality: str | None
    notified_on: str | None


class Profile(Block):
    """One company. Amounts are text with their currency; `founding_date` is a date, a month or a year."""

    name: str | None
    domain: str | None
    description: str | None
    founding_date: str | None
    industry: str | None
    company_type: str | None
    status: str | None
    employee_count: int | None
    revenue: str | None
    total_funding: str | None
    address: str | None
    country: str | None
    phone: str | None
    website: str | None
    logo: str | None
    linkedin: str | None
    twitter: str | None
    ticker: str | None
    registration_number: str | None
    jurisdiction: str | None
    sic_codes: list[str]
    officers: list[Officer]
    shareholders: list[Shareholder]


class Candidate(Block):
    """A company that the query may mean, with its ids; `score` is from 0 to 1."""

    name: str
    domain: str | None
    country: str | None
    description: str | None
    wikidata: str | None
    lei: str | None
    cik: str | None
    companies_house: str | None
    score: float


class CompanyAnswer(LookupAnswer):
    """People at a company and its profile; `candidates` where the name may mean several."""

    company: str
    results: list[Person]
    profile: Profile | None
    total: int
    candidates: list[Candidate]
