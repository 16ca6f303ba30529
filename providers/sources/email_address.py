"""What an e-mail address is, and its one normalised form."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from email_validator import EmailNotValidError, validate_email

from models.domains import LONGEST_LABEL
from models.errors import FieldError, Invalid
from providers.sources.base import Query

_LONGEST = 254  # RFC 5321, errata 1690
# A label without these, the dots of all scripts: the library would encode it, by the square of its length.
_NO_LABEL = re.compile(rf"@(.*[.。．｡])?[^.。．｡]{{{LONGEST_LABEL + 1}}}", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """The two halves of an address; the domain as an A-label."""

    local: str
    domain: str


def parsed(text: str) -> Address | None:
    """The address that `text` is, in lower case, or None. Comments, names and quotes are not accepted."""
    text = unicodedata.normalize("NFC", text.strip())
    if len(text) > _LONGEST or _NO_LABEL.search(text):
        return None
    try:
        found = validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return None
    return Address(found.local_part.lower(), (found.ascii_domain or found.domain).lower())


def normalise(kind: str, text: str, pointer: str) -> Query:
    """The query for an address.

    Args:
        kind: whose query.
        text: as the caller gave it.
        pointer: where in the caller's input it stood.

    Raises:
        Invalid: if `text` is not an e-mail address.
    """
    address = parsed(text)
    if address is None:
        message = "This is not an e-mail address; give one such as ada@example.com, without name or comment."
        raise Invalid([FieldError(pointer, "invalid_email", message)])
    return Query(kind, f"{address.local}@{address.domain}", address)
