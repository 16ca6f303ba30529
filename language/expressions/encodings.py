"""Functions that make one text of another, or read one: digests, JSON, parts of URLs."""

from __future__ import annotations

import hashlib
import re
from typing import cast
from urllib.parse import quote_from_bytes

import orjson
from jmespath.functions import signature

from language.expressions.signatures import STRING, Functions, charge_string, invalid_value
from language.expressions.values import CHEAP_VISITS, JSON, PRODUCED_CHARACTERS

# An odd number of backslashes makes the escape of a NUL; an even one is a backslash and the text u0000.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _encode_text(text: str) -> bytes:
    # Half of a surrogate pair has no place in UTF-8, but what cannot be read must not end as another error.
    return text.encode("utf-8", "surrogatepass")


class Encodings(Functions):
    """The functions on encoded text."""

    @signature(STRING)
    def _func_hash_sha256(self, text: str) -> JSON:
        self.budget.spend(1 + len(text) // PRODUCED_CHARACTERS)
        return hashlib.sha256(_encode_text(text)).hexdigest()

    @signature(STRING)
    def _func_parse_json(self, text: str) -> JSON:
        # Of all JSON of a length, empty arrays take longest.
        self.budget.spend(text.count("[") + text.count("{") + len(text) // PRODUCED_CHARACTERS)
        if "\\u0000" in text and _NUL.search(text):
            raise invalid_value("parse_json() takes no text with NUL characters.")
        try:
            value = cast(JSON, orjson.loads(text))
        except orjson.JSONDecodeError as error:
            message = f"parse_json() takes JSON; this is none from its character {error.pos + 1} on."
            raise invalid_value(message) from None
        # What is nested deeper than a result may be is refused here, where it can be told why.
        self.budget.measure(value)
        return value

    @signature(STRING)
    def _func_url_encode(self, text: str) -> JSON:
        self.budget.spend(len(text) // CHEAP_VISITS)
        encoded = _encode_text(text)
        self.budget.spend(len(encoded) // CHEAP_VISITS)
        quoted = quote_from_bytes(encoded, safe="")
        charge_string(self.budget, len(quoted))
        return quoted
