"""The validation of phone numbers and their one normalised form. The library is loaded on first use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.errors import FieldError, Invalid

if TYPE_CHECKING:
    from phonenumbers import PhoneNumber

_LONGEST = 60
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ABROAD = re.compile(r"00[ ().-]*[1-9]")
_EXAMPLE = "give one with its country code, such as +14155552671, or name the country."


@dataclass(frozen=True)
class Number:
    """A possible number. `valid`: it is in a range of its country's numbering plan."""

    e164: str
    valid: bool

    def to_library_form(self) -> PhoneNumber:
        """Return the number in the library's form."""
        import phonenumbers

        return phonenumbers.parse(self.e164)


def number(text: str, pointer: str, country: str | None = None) -> Number:
    """Parse a phone number.

    Args:
        text: as the caller wrote it.
        pointer: where in the caller's input it stood.
        country: ISO 3166-1 alpha-2; numbers of this country may omit the country code.

    Raises:
        Invalid: if `text` is not a phone number, or `country` not a country.
    """
    import phonenumbers

    region = country.strip().upper() if country else None
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        message = "This is not a country; give its two letters, such as US."
        raise Invalid([FieldError("/country", "invalid_country", message)])
    try:
        if len(text) > _LONGEST or _CONTROL.search(text.strip()):
            raise phonenumbers.NumberParseException(phonenumbers.NumberParseException.TOO_LONG, "")
        found = _read_number(text, region)
        # Extensions are not part of the number. A number that changes when parsed again is invalid.
        e164 = phonenumbers.format_number(found, phonenumbers.PhoneNumberFormat.E164)
        again = phonenumbers.parse(e164)
    except phonenumbers.NumberParseException:
        message = f"This is not a phone number; {_EXAMPLE}"
        raise Invalid([FieldError(pointer, "invalid_phone", message)]) from None
    return Number(e164, phonenumbers.is_valid_number(again))


def _read_number(text: str, region: str | None) -> PhoneNumber:
    """Read a number. `00` before the country code is accepted, even where the country dials another prefix.

    Raises:
        phonenumbers.NumberParseException: if it is no number.
    """
    import phonenumbers

    bare = text.strip()
    abroad = f"+{bare[2:]}" if _ABROAD.match(bare) else None
    if region is None:
        return phonenumbers.parse(abroad or text)
    found = phonenumbers.parse(text, region)
    if abroad is None or phonenumbers.is_valid_number(found):
        return found
    try:
        other = phonenumbers.parse(abroad)
    except phonenumbers.NumberParseException:
        return found
    return other if phonenumbers.is_valid_number(other) else found
