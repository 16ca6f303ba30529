"""The answer of a company search: people, one profile of one company, or the companies that it may be."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer


class Person(Block):
    """Someone at the company; `linkedin` is a URL."""

    email: str | None = Field(description="The address at work.")
    name: str | None = Field(description="The full name.")
    role: str | None = Field(description="The position.")
    linkedin: str | None = Field(description="The URL of the person's page at LinkedIn.")


class Officer(Block):
    """A person who runs the company, according to a register; `appointed_on` is a date or a year."""

    name: str = Field(description="The full name.")
    role: str | None = Field(description="The office.")
    appointed_on: str | None = Field(description="Since when: a date or a year.")
    nationality: str | None = Field(description="The nationality as the register has it.")


class Shareholder(Block):
    """An owner or controller of the company; in the UK a person with significant control."""

    name: str = Field(description="The name of the person or company.")
    natures_of_control: list[str] = Field(
        description="What the control consists in, in the register's words."
    )
    nationality: str | None = Field(description="The nationality as the register has it.")
    notified_on: str | None = Field(description="When the register was told, `YYYY-MM-DD`.")


class Profile(Block):
    """One company. Amounts are text with their currency; `founding_date` is a date, a month or a year."""

    name: str | None = Field(description="The company's name.")
    domain: str | None = Field(description="The domain of its site.")
    description: str | None = Field(description="What it does.")
    founding_date: str | None = Field(description="A date, a month or a year.")
    industry: str | None = Field(description="Its industry.")
    company_type: str | None = Field(description="Its legal form.")
    status: str | None = Field(description="Whether it is active, as the register has it.")
    employee_count: int | None = Field(description="How many people it employs.")
    revenue: str | None = Field(description="The revenue of a year, with its currency.")
    total_funding: str | None = Field(description="What investors gave so far, with its currency.")
    address: str | None = Field(description="The address of its seat.")
    country: str | None = Field(description="The country of its seat.")
    phone: str | None = Field(description="Its phone number.")
    website: str | None = Field(description="The URL of its site.")
    logo: str | None = Field(description="The URL of its logo.")
    linkedin: str | None = Field(description="The URL of its page at LinkedIn.")
    twitter: str | None = Field(description="The URL of its page at Twitter.")
    ticker: str | None = Field(description="The symbol of its shares.")
    registration_number: str | None = Field(description="Its number in the register.")
    jurisdiction: str | None = Field(description="Where it is registered.")
    sic_codes: list[str] = Field(description="Its codes in the Standard Industrial Classification.")
    officers: list[Officer] = Field(description="Who runs it.")
    shareholders: list[Shareholder] = Field(description="Who owns or controls it.")


class Candidate(Block):
    """A company that the query may mean, with its ids; `score` is from 0 to 1."""

    name: str = Field(description="The company's name.")
    domain: str | None = Field(description="The domain of its site.")
    country: str | None = Field(description="The country of its seat.")
    description: str | None = Field(description="What it does.")
    wikidata: str | None = Field(description="Its id at Wikidata.")
    lei: str | None = Field(description="Its Legal Entity Identifier.")
    cik: str | None = Field(description="Its number at the SEC.")
    companies_house: str | None = Field(description="Its number at Companies House.")
    score: float = Field(description="How well it fits the query, from 0 to 1.")


class CompanyAnswer(LookupAnswer):
    """People at a company and its profile; `candidates` where the name may mean several."""

    company: str = Field(description="The query.")
    results: list[Person] = Field(description="People at the company.")
    profile: Profile | None = Field(
        description="The company; null where none was found, or the name may mean several."
    )
    total: int = Field(description="How many people there are in `results`.")
    candidates: list[Candidate] = Field(
        description="The companies that the name may mean, where it is ambiguous."
    )
