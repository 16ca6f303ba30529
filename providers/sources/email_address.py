"""The validation of e-mail addresses and their one normalised form."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from email_validator import EmailNotValidError, validate_email

from models.domains import LONGEST_LABEL
from models.errors import FieldError, Invalid
from providers.sources.base import Query

_LONGEST = 254  # RFC 5321, errata 1690
# A longer label without any of these dots (of all scripts) is rejected here, because the library would encode
# it in quadratic time.
_NO_LABEL = re.compile(rf"@(.*[.。．｡])?[^.。．｡]{{{LONGEST_LABEL + 1}}}", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """The two halves of an address; the domain as an A-label."""

    local: str
    domain: str


def parse_address(text: str) -> Address | None:
    """Parse `text` as an address in lower case; None if it is none.

    Comments, names and quotes are rejected.
    """
    text = unicodedata.normalize("NFC", text.strip())
    if len(text) > _LONGEST or _NO_LABEL.search(text):
        return None
    try:
        found = validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return None
    return Address(found.local_part.lower(), (found.ascii_domain or found.domain).lower())


def normalise(kind: str, text: str, pointer: str) -> Query:
    """Return the query for an address.

    Args:
        kind: the kind of the query.
        text: as the caller wrote it.
        pointer: where in the caller's input it stood.

    Raises:
        Invalid: if `text` is not an e-mail address.
    """
    address = parse_address(text)
    if address is None:
        message = "This is not an e-mail address; give one such as ada@example.com, without name or comment."
        raise Invalid([FieldError(pointer, "invalid_email", message)])
    return Query(kind, f"{address.local}@{address.domain}", address)
