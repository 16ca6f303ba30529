"""The answer of an e-mail lookup: one flat profile, null where nobody knows."""

from __future__ import annotations

from typing import Literal

from models.lookups import Block, LookupAnswer

Validity = Literal["valid", "invalid", "risky", "unknown"]


class Socials(Block):
    """The person's pages, as URLs."""

    linkedin: str | None
    twitter: str | None
    instagram: str | None
    facebook: str | None
    github: str | None


class Breach(Block):
    """The known breaches that the address is in."""

    count: int | None
    services: list[str]
    exposed_data: list[str]


class RegisteredServices(Block):
    """The services that are known to have an account for the address."""

    count: int | None
    services: list[str]


class NewsItem(Block):
    """A page in the news that names the person."""

    title: str
    url: str
    date: str | None
    source: str | None


class Publication(Block):
    """A work of the person's."""

    title: str
    url: str | None
    year: int | None
    cited_by: int | None


class EmailAnswer(LookupAnswer):
    """What is known about an e-mail address and the person behind it."""

    email: str
    first_name: str | None
    last_name: str | None
    name: str | None
    company: str | None
    job_role: str | None
    role: str | None
    seniority: str | None
    department: str | None
    industry: str | None
    location: str | None
    country: str | None
    city: str | None
    birthplace: str | None
    current_location: str | None
    bio: str | None
    age: int | None
    gender: str | None
    education: str | None
    phone: str | None
    photo: str | None
    languages: list[str]
    skills: list[str]
    company_domain: str | None
    company_size: str | None
    validity: Validity | None
    is_disposable: bool | None
    is_role_account: bool | None
    is_free_provider: bool | None
    mx_found: bool | None
    socials: Socials
    breach: Breach
    registered_services: RegisteredServices
    news: list[NewsItem]
    publications: list[Publication]
