"""The kind `validate`: the sources of the kind `email` that check the address alone, and the verdict.

Text that is no address at all also gets an answer: `invalid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from providers.email import disposable, freemail, mx, roles
from providers.email.kind import validity
from providers.sources.base import Query
from providers.sources.email_address import parse_address
from providers.sources.kind import Derived, Kind
from providers.validate import syntax
from providers.validate.answer import ValidateAnswer

_LONGEST_ECHO = 320
_PLACES = {
    "mx_found": "checks.mx",
    "is_disposable": "checks.disposable",
    "is_role_account": "checks.role",
    "is_free_provider": "checks.free_provider",
}
_UNKNOWN = "Whether the domain takes mail could not be found out."
_MESSAGES = {
    "checks.syntax": "This is not an e-mail address.",
    "checks.domain": "There is no such domain.",
    "checks.mx": "The domain takes no mail.",
    "checks.disposable": "The domain gives out addresses to throw away.",
    "checks.role": "This is the address of a function and not of a person.",
}


def normalise(text: str, pointer: str) -> Query:
    """Return the query for an address, or for other text unchanged."""
    address = parse_address(text)
    if address is None:
        return Query("validate", text.strip()[:_LONGEST_ECHO])
    return Query("validate", f"{address.local}@{address.domain}", address)


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """Return the verdict and its reason."""
    if fields.get("checks.syntax") is False:
        message = (_MESSAGES["checks.syntax"], "checks.syntax")
        return {"validity": ("invalid", "checks.syntax"), "message": message}
    judgement, path = validity({path: fields.get(place) for path, place in _PLACES.items()})["validity"]
    origin = _PLACES[path] if path else None
    if judgement == "valid":
        message = "The domain takes mail."
    else:
        place = "checks.domain" if fields.get("checks.domain") is False else origin
        message = _MESSAGES[place] if place else _UNKNOWN
    return {
        "checks.syntax": (True, None),
        "validity": (judgement, origin),
        "message": (message, origin),
    }


KIND = Kind(
    name="validate",
    sources=(
        syntax.SOURCE,
        *(
            replace(source, places=_PLACES)
            for source in (disposable.SOURCE, roles.SOURCE, freemail.SOURCE, mx.SOURCE)
        ),
    ),
    answer=ValidateAnswer,
    example="ada@example.com",
    normalise=normalise,
    echo="email",
    derive=derive,
    origins=dict.fromkeys(
        ("checks.syntax", "validity", "message"),
        ("checks.mx", "checks.disposable", "checks.role", "checks.domain"),
    ),
)
