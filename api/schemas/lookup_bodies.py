"""The bodies of lookups: a target, and what else its kind takes. Routes and the tools of agents read them."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from api.http.validation import Body
from models.errors import FieldError, Invalid
from providers.company.kind import MOST_PEOPLE, PEOPLE
from providers.phone.number import number
from providers.websearch.kind import LIMIT, SHOWN


class IpQuery(Body):
    """An address to look up."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ip": "8.8.8.8"}]})

    ip: str = Field(description="An IPv4 or IPv6 address.")


class EmailQuery(Body):
    """An e-mail address to look up."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "ada@example.com"}]})

    email: str = Field(description="An e-mail address.")


class PhoneQuery(Body):
    """A phone number to look up, in either field; without its country code if `country` names the country."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"phone": "+14155552671"}]})

    phone: str | None = Field(
        None, description="A phone number, with its country code unless `country` is given."
    )
    query: str | None = Field(None, description="The same as `phone`.")
    country: str | None = Field(
        None, description="The country of a number without its code, by two letters (ISO 3166-1)."
    )

    def read_target(self) -> str:
        """Return the number in E.164.

        Raises:
            Invalid: if there is none.
        """
        name = "query" if self.phone is None and self.query is not None else "phone"
        text = self.query if name == "query" else self.phone
        if text is None:
            raise Invalid([FieldError("/phone", "required", "Give a number, such as +14155552671.")])
        return number(text, f"/{name}", self.country).e164


class DomainQuery(Body):
    """A domain to look up, in either field."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"domain": "example.com"}]})

    domain: str | None = Field(None, description="A domain name, in any script.")
    query: str | None = Field(None, description="The same as `domain`.")


class UsernameQuery(Body):
    """A user name to look up, in either field."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"username": "octocat"}]})

    username: str | None = Field(None, description="A user name, without @.")
    query: str | None = Field(None, description="The same as `username`.")


class WebSearchQuery(Body):
    """A query for the web; `limit` is the most results."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Ada Lovelace", "limit": 10}]})

    query: str = Field(description="What to search for.")
    limit: int = Field(SHOWN, ge=1, le=LIMIT, description="How many results to give at most.")


class CompanyQuery(Body):
    """A company to search for by name or domain, in either field; `limit` is the most people."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"company": "Example Bank plc", "limit": 10}]})

    company: str | None = Field(None, description="A company's name or domain.")
    query: str | None = Field(None, description="The same as `company`.")
    limit: int = Field(
        PEOPLE, ge=1, le=MOST_PEOPLE, description="How many people to give, and to pay for, at most."
    )


class DarkwebQuery(Body):
    """A query for the dark web; `offset` is how many mentions to skip, 20 being a page."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "example.com", "offset": 0}]})

    query: str = Field(description="An e-mail address, a domain, an IP address or words.")
    offset: int = Field(0, ge=0, le=100_000, description="How many mentions to leave out; a page has 20.")
