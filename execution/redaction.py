"""Redaction: an endpoint that echoes a secret leaves `***` in the run."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Collection, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import orjson

from language.expressions import JSON

MASK = "***"
MAX_DEPTH = 200
"""Deeper values are masked as a whole, if there is any secret to mask."""

_SHORT = 4
_SHORT_BASE64 = 6
# The characters that URLs may contain unescaped, in a path and in a query.
_PATH, _QUERY = "/", "/?:@!$&'()*+,;="
_ESCAPE = re.compile("%[0-9A-F]{2}")


class Redaction:
    """Replaces secrets by `***`, in plain form and in the forms in which endpoints echo them.

    These forms are: percent-encoded, as a form field or decoded from either; escaped for JSON or HTML; in
    base64, also in the middle of it (`user:secret`); bytes of UTF-8 read as Latin-1; without surrounding
    spaces. A secret of less than four characters is replaced only if it is the whole string. Create one for
    each step, not for each call.
    """

    def __init__(self, values: Collection[str]) -> None:
        """Prepare to replace these secrets."""
        forms = {form for value in values for form in _forms(value)}
        # Maps each form, longest first, to the text that marks it in JSON.
        self._forms = {
            form: _escape_text(form) if len(form) >= _SHORT else f'"{_escape_text(form)}"'
            for form in sorted(forms, key=lambda form: (len(form), form), reverse=True)
        }

    def apply(self, value: JSON) -> JSON:
        """Return `value` without the secrets: in strings, in names, and in numbers that equal one.

        If names of an object become equal, the last value stays. If there is no secret, the result is `value`
        itself.
        """
        forms = self._find_suspected_forms(value)
        return self._mask_value(value, forms, 0) if forms else value

    def cost_of(self, size: int) -> int:
        """Return the cost of `apply` for a value with so many bytes of JSON: the bytes that it searches."""
        return size * len(self._forms)

    def text(self, text: str) -> str:
        """Return the string without the secrets."""
        return self._masked_text(text, self._forms)

    def _find_suspected_forms(self, value: JSON) -> Collection[str]:
        """Return the forms that may be present, found by a quick search in the JSON of the whole value.

        JSON escapes each character by itself, so a form inside a string appears in its escaped form.
        """
        if not self._forms:
            return ()
        try:
            whole = orjson.dumps(value).decode()
        except orjson.JSONEncodeError:
            return self._forms  # too deep, or a lone surrogate
        return [form for form, sign in self._forms.items() if sign in whole]

    def _mask_value(self, value: JSON, forms: Collection[str], depth: int) -> JSON:
        if isinstance(value, str):
            return self._masked_text(value, forms)
        if isinstance(value, int) and not isinstance(value, bool):
            written = str(value)
            return MASK if len(written) >= _SHORT and written in forms else value
        if not isinstance(value, (list, dict)):
            return value
        if depth >= MAX_DEPTH:
            return MASK
        if isinstance(value, list):
            return [self._mask_value(item, forms, depth + 1) for item in value]
        return {
            self._masked_text(name, forms): self._mask_value(item, forms, depth + 1)
            for name, item in value.items()
        }

    def _masked_text(self, text: str, forms: Collection[str]) -> str:
        rest = text
        for form in forms:
            if len(form) < _SHORT:
                if form == text:
                    return MASK
            elif form in rest:
                rest = rest.replace(form, MASK)
        # A mask together with the text beside it can equal a secret that contains asterisks.
        again = rest is not text and any(len(form) >= _SHORT and form in rest for form in self._forms)
        return MASK if again else rest


def apply_redaction(_ask: object, redaction: Redaction, value: JSON) -> JSON:
    """Return `redaction.apply(value)`, in a process of the pool."""
    return redaction.apply(value)


def _escape_text(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]


def _forms(secret: str) -> Iterator[str]:
    """Yield the secret and, unless it is short, its encoded forms."""
    for value in {secret, secret.strip()} - {""}:  # a header field loses the spaces around it
        yield value
        if len(value) >= _SHORT:
            yield from _list_encodings(value)


def _list_encodings(value: str) -> Iterator[str]:
    yield value.encode().decode("latin-1")
    yield unquote(value)
    yield unquote_plus(value)
    for encoded in (quote_plus(value), quote(value, ""), quote(value, _PATH), quote(value, _QUERY)):
        yield encoded
        yield _ESCAPE.sub(lambda found: found[0].lower(), encoded)
    for written in (json.dumps(value)[1:-1], _escape_text(value)):
        yield written
        yield written.replace("/", "\\/")
    yield html.escape(value, quote=False)
    yield html.escape(value)
    yield html.escape(value).replace("&#x27;", "&#39;")
    for encoded in _in_base64(value.encode()):
        yield encoded
        yield encoded.translate({ord("+"): "-", ord("/"): "_"})


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield the secret in base64, alone and, inside other text, the characters that it determines."""
    alone = base64.b64encode(secret).decode()
    yield alone
    yield alone.rstrip("=")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)
        first, last = (before * 8 + 5) // 6, (before + len(secret)) * 8 // 6
        if last - first >= _SHORT_BASE64:
            yield encoded[first:last].decode()
