"""The answer of a phone lookup: blocks that are always objects, with null for unknown values."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer


class Format(Block):
    """The number as it is written."""

    international: str | None = Field(description="With the country code, in groups.")
    local: str | None = Field(description="As it is dialled within the country.")
    e164: str | None = Field(description="With the country code, without spaces: `+14155552671`.")


class Country(Block):
    """The origin of the number; `prefix` is the calling code with its plus."""

    code: str | None = Field(description="The country by two letters.")
    name: str | None = Field(description="The country's name.")
    prefix: str | None = Field(description="The calling code with its plus.")
    region: str | None = Field(description="The region or state.")
    city: str | None = Field(description="The city.")
    timezone: str | None = Field(description="The zone's IANA name.")


class Carrier(Block):
    """The carrier of the number. Without a source that looks it up, the first assignee of the range."""

    name: str | None = Field(description="Its name.")
    line_type: str | None = Field(description="What sort of line it is.")


class Messaging(Block):
    """The gateway that turns mail into a text message to the number."""

    sms_domain: str | None = Field(description="The domain of the gateway.")
    sms_email: str | None = Field(description="The address that reaches the number.")


class Validation(Block):
    """The state of the number; `minimum_age` in days."""

    is_valid: bool | None = Field(description="Whether there can be such a number.")
    line_status: str | None = Field(description="Whether the line is active.")
    is_voip: bool | None = Field(description="Whether it is a line over the internet.")
    minimum_age: int | None = Field(description="For how many days it has been in use at least.")


class PhoneRegistration(Block):
    """The owner of the number: a person or a company."""

    name: str | None = Field(description="The name.")
    type: str | None = Field(description="A person or a company.")


class Risk(Block):
    """The known risks of the number."""

    risk_level: str | None = Field(description="How risky it is.")
    is_disposable: bool | None = Field(description="Whether it is a throw-away number.")
    is_abuse_detected: bool | None = Field(description="Whether abuse of it is known.")


class Breaches(Block):
    """The known breaches that the number is in."""

    total_breaches: int | None = Field(description="How many there are.")
    date_first_breached: str | None = Field(description="When the first was.")
    date_last_breached: str | None = Field(description="When the last was.")


class PhoneAnswer(LookupAnswer):
    """The answer about a phone number."""

    phone: str = Field(description="The number, in E.164.")
    valid: bool | None = Field(description="Whether there can be such a number.")
    type: str | None = Field(description="What sort of number it is.")
    location: str | None = Field(description="Where it is from, in one text.")
    format: Format = Field(description="How it is written.")
    country: Country = Field(description="Where it is from.")
    carrier: Carrier = Field(description="Who serves it.")
    messaging: Messaging = Field(description="How mail becomes a text message to it.")
    validation: Validation = Field(description="Whether it works.")
    registration: PhoneRegistration = Field(description="Whose it is.")
    risk: Risk = Field(description="What is known against it.")
    breaches: Breaches = Field(description="The known breaches that it is in.")
