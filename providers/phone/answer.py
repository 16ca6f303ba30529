"""The answer of a phone lookup: blocks that are always objects, null where nobody knows."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class Format(Block):
    """The number as it is written."""

    international: str | None
    local: str | None
    e164: str | None


class Country(Block):
    """Where the number is from; `prefix` is the calling code with its plus."""

    code: str | None
    name: str | None
    prefix: str | None
    region: str | None
    city: str | None
    timezone: str | None


class Carrier(Block):
    """Who serves the number. Without a source that looks it up, that is whom the range was given to first."""

    name: str | None
    line_type: str | None


class Messaging(Block):
    """Where mail becomes a text message to the number."""

    sms_domain: str | None
    sms_email: str | None


class Validation(Block):
    """Whether the number works; `minimum_age` in days."""

    is_valid: bool | None
    line_status: str | None
    is_voip: bool | None
    minimum_age: int | None


class Registration(Block):
    """Whose number it is: a person's or a company's."""

    name: str | None
    type: str | None


class Risk(Block):
    """What is known against the number."""

    risk_level: str | None
    is_disposable: bool | None
    is_abuse_detected: bool | None


class Breaches(Block):
    """The known breaches that the number is in."""

    total_breaches: int | None
    date_first_breached: str | None
    date_last_breached: str | None


class PhoneAnswer(LookupAnswer):
    """What is known about a phone number."""

    phone: str
    valid: bool | None
    type: str | None
    location: str | None
    format: Format
    country: Country
    carrier: Carrier
    messaging: Messaging
    validation: Validation
    registration: Registration
    risk: Risk
    breaches: Breaches
