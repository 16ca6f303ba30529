"""The answer of an e-mail lookup: one flat profile, with null for unknown values."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer, Verdict

Validity = Literal["valid", "invalid", "risky", "unknown"]


class Socials(Block):
    """The person's pages, as URLs."""

    linkedin: str | None = Field(description="The page at LinkedIn.")
    twitter: str | None = Field(description="The page at Twitter.")
    instagram: str | None = Field(description="The page at Instagram.")
    facebook: str | None = Field(description="The page at Facebook.")
    github: str | None = Field(description="The page at GitHub.")


class MailChecks(Block):
    """The checks behind `validity`. Null means unknown or not checked."""

    syntax: bool | None = Field(description="Whether it is written as an address.")
    domain: bool | None = Field(description="Whether there is such a domain.")
    mx: bool | None = Field(description="Whether its domain has a mail server that can be reached by others.")
    mailbox: bool | None = Field(
        description="Whether a service has found the mailbox. Null where nobody was asked: none is by us."
    )


class Breach(Block):
    """The known breaches that the address is in."""

    count: int | None = Field(description="How many there are, those included that no source names.")
    services: list[str] = Field(description="The services that were breached.")
    exposed_data: list[str] = Field(description="The sorts of data that were exposed.")
    spam_lists: list[str] = Field(
        description="Those of `services` that are lists of spam recipients, and no service's breach."
    )
    retired: list[str] = Field(description="Those of `services` whose data was withdrawn from the catalogue.")


class RegisteredServices(Block):
    """The services that are known to have an account for the address."""

    count: int | None = Field(description="How many there are; 0 once all that were asked have answered.")
    services: list[str] = Field(description="The services.")
    asked: list[str] = Field(description="The services that were asked themselves.")


class NewsItem(Block):
    """A page in the news that names the person."""

    title: str = Field(description="The page's title.")
    url: str = Field(description="Its URL.")
    date: str | None = Field(description="When it appeared, `YYYY-MM-DD`.")
    source: str | None = Field(description="Where it appeared.")


class Publication(Block):
    """A work of the person's."""

    title: str = Field(description="The work's title.")
    url: str | None = Field(description="Its URL.")
    year: int | None = Field(description="When it appeared.")
    cited_by: int | None = Field(description="How many works cite it.")


class OtherPerson(Block):
    """Another person that a source describes, by another name than the profile's or without a name."""

    source: str = Field(description="The source that says so.")
    name: str | None = Field(description="The full name.")
    first_name: str | None = Field(description="The first name.")
    last_name: str | None = Field(description="The last name.")
    company: str | None = Field(description="The company that the person works for.")
    job_role: str | None = Field(description="The job.")
    seniority: str | None = Field(description="The rank of the job.")
    department: str | None = Field(description="The department.")
    industry: str | None = Field(description="The company's industry.")
    company_domain: str | None = Field(description="The domain of the company's site.")
    company_size: str | None = Field(description="How many people the company employs.")
    location: str | None = Field(description="Where the person is, in one text.")
    country: str | None = Field(description="The country of that.")
    city: str | None = Field(description="The city of that.")
    bio: str | None = Field(description="What the person says of themselves.")
    phone: str | None = Field(description="A phone number.")
    photo: str | None = Field(description="The URL of a picture.")
    languages: list[str] = Field(description="The languages that the person speaks.")
    socials: list[str] = Field(description="The URLs of the person's pages.")


class EmailAnswer(LookupAnswer):
    """The answer about an e-mail address and the person behind it."""

    email: str = Field(description="The address.")
    first_name: str | None = Field(description="The person's first name.")
    last_name: str | None = Field(description="The person's last name.")
    name: str | None = Field(description="The person's full name.")
    company: str | None = Field(description="The company that the person works for.")
    job_role: str | None = Field(description="The job.")
    role: str | None = Field(description="The same as `job_role`.")
    seniority: str | None = Field(description="The rank of the job.")
    department: str | None = Field(description="The department.")
    industry: str | None = Field(description="The company's industry.")
    location: str | None = Field(description="Where the person is, in one text.")
    country: str | None = Field(description="The country of that.")
    city: str | None = Field(description="The city of that.")
    birthplace: str | None = Field(description="Where the person was born.")
    current_location: str | None = Field(description="The same as `location`.")
    bio: str | None = Field(description="What the person says of themselves.")
    age: int | None = Field(description="The age in years.")
    gender: str | None = Field(description="The gender.")
    education: str | None = Field(description="Schools and degrees.")
    phone: str | None = Field(description="A phone number.")
    photo: str | None = Field(description="The URL of a picture.")
    languages: list[str] = Field(description="The languages that the person speaks.")
    skills: list[str] = Field(description="What the person can do.")
    company_domain: str | None = Field(description="The domain of the company's site.")
    company_size: str | None = Field(description="How many people the company employs, as a range.")
    validity: Validity | None = Field(description="Whether the address can receive mail.")
    checks: MailChecks = Field(description="What `validity` rests on.")
    is_disposable: bool | None = Field(description="Whether it is of a provider of throw-away addresses.")
    is_role_account: bool | None = Field(
        description="Whether it is a function's rather than a person's, such as info@."
    )
    is_free_provider: bool | None = Field(description="Whether it is of a free provider.")
    mx_found: bool | None = Field(description="Whether its domain has a mail server.")
    socials: Socials = Field(description="The person's pages.")
    breach: Breach = Field(description="Known breaches of the address.")
    registered_services: RegisteredServices = Field(description="Services with an account for the address.")
    news: list[NewsItem] = Field(description="Pages in the news that name the person.")
    publications: list[Publication] = Field(description="Works of the person.")
    other_people: list[OtherPerson] = Field(
        description="Who else the sources speak of. Nothing of them is in the profile."
    )
    verdict: Verdict = Field(description="Whether it is bad, as far as the sources tell.")
