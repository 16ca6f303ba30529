"""Templates: JSON whose strings hold expressions in double braces.

    {"text": "{{ trigger.name }} was seen {{ length(hits) }} times", "hits": "{{ hits }}"}

A string that is one `{{ … }}` and nothing else becomes the value itself, of whatever type. In a longer
string, null is empty, a string is itself and all else is compact JSON. What is filled in is never read as a
template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from language import expressions
from language.expressions import JSON, Budget, Expression, ExpressionError, Reference
from language.expressions.values import MAX_VALUE_DEPTH, compact_json
from language.findings import escape_name, missing_secret

SECRETS = "secrets"
_QUOTES = "'\"`"
_AFTER_PATH = re.compile("[?#]")
_DOTS = re.compile(r"(\.|%2e){1,2}", re.IGNORECASE)


class Placeholder(NamedTuple):
    """One `{{ … }}` of a template.

    Attributes:
        pointer: the JSON pointer to its string within the structure.
        position: 0-based offset of the expression in that string.
        expression: the expression between the braces.
        secret: the name, if it is `secrets.NAME`; else None.
    """

    pointer: str
    position: int
    expression: Expression
    secret: str | None


class _Scopes(NamedTuple):
    """The constants of one rendering; expressions never see the secrets."""

    names: Mapping[str, JSON]
    secrets: Mapping[str, JSON]
    budget: Budget
    for_url: bool


_Render = Callable[[_Scopes], JSON]


@dataclass(frozen=True)
class Template:
    """A compiled template. Made by `compile_template`.

    Attributes:
        structure: as it was written.
        placeholders: all expressions in it, in order.
    """

    structure: JSON
    placeholders: tuple[Placeholder, ...]
    _render: _Render | None = field(compare=False, repr=False)

    @property
    def references(self) -> tuple[Reference, ...]:
        """The parts of the scope that it reads, in order, apart from secrets."""
        found = (
            reference
            for placeholder in self.placeholders
            if placeholder.secret is None
            for reference in placeholder.expression.references
        )
        unique: dict[tuple[str, tuple[str, ...]], Reference] = {}
        for reference in found:
            unique.setdefault((reference.root, reference.path), reference)
        return tuple(unique.values())

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names in its `{{ secrets.NAME }}`, in order, each once."""
        return tuple(dict.fromkeys(p.secret for p in self.placeholders if p.secret is not None))

    def render(
        self, scope: Mapping[str, JSON], budget: Budget | None = None, *, for_url: bool = False
    ) -> JSON:
        """Return the structure with its expressions evaluated; it may share parts with structure and scope.

        Args:
            scope: the names that the expressions can read; under `secrets` an object of the secrets.
            budget: charged with the work; a new one by default.
            for_url: in a longer string, reject null, and percent-encode values after `://`, so that no value
                changes the host, path or parameters that the author intended.

        Raises:
            ExpressionError: as `Expression.evaluate`, with the pointer to the string; or `unknown_secret`,
                `missing_value`, or `bad_url` if a value would lead to another path.
        """
        if self._render is None:
            return self.structure
        secrets = scope.get(SECRETS)
        names = {name: value for name, value in scope.items() if name != SECRETS}
        known = secrets if isinstance(secrets, dict) else {}
        return self._render(_Scopes(names, known, Budget() if budget is None else budget, for_url))


def compile_template(value: JSON) -> Template:
    """Read a structure and check its expressions. Keys of objects are never templates.

    Raises:
        ExpressionError: as `expressions.compile`, or `bad_secret_reference`, with the pointer to the string
            in the structure and the position in that string.
    """
    template, errors = read_template(value)
    if errors:
        raise errors[0]
    return template


def read_template(value: JSON) -> tuple[Template, list[ExpressionError]]:
    """Return a structure, as far as it is readable, and all errors that `compile_template` would raise.

    Only a structure without errors may be rendered.
    """
    reading = _Reading([], [])
    render = _compile(value, "", 0, reading)
    return Template(value, tuple(reading.placeholders), render), reading.errors


class _Reading(NamedTuple):
    placeholders: list[Placeholder]
    errors: list[ExpressionError]


def _compile(value: JSON, pointer: str, depth: int, reading: _Reading) -> _Render | None:
    """Return the renderer of a value; None if there is nothing to fill in."""
    if isinstance(value, str):
        return _string(value, pointer, reading)
    if not isinstance(value, (list, dict)):
        return None
    if depth >= MAX_VALUE_DEPTH:
        message = f"A template has at most {MAX_VALUE_DEPTH} levels."
        reading.errors.append(ExpressionError("too_deep", message, None, pointer))
        return None
    if isinstance(value, list):
        parts = [
            (item, _compile(item, f"{pointer}/{index}", depth + 1, reading))
            for index, item in enumerate(value)
        ]
        if all(render is None for _, render in parts):
            return None
        return lambda scopes: [item if render is None else render(scopes) for item, render in parts]
    named = [
        (name, item, _compile(item, f"{pointer}/{escape_name(name)}", depth + 1, reading))
        for name, item in value.items()
    ]
    if all(render is None for _, _, render in named):
        return None
    return lambda scopes: {name: item if render is None else render(scopes) for name, item, render in named}


def _string(text: str, pointer: str, reading: _Reading) -> _Render | None:
    parts: list[str | Placeholder] = []
    at = 0
    while (opening := text.find("{{", at)) >= 0:
        end = _end(text, opening)
        if end < 0:
            error = ExpressionError("bad_expression", "A {{ has no }}.", opening, pointer)
            reading.errors.append(error)
            return None
        try:
            placeholder = _placeholder(text[opening + 2 : end], opening + 2, pointer)
        except ExpressionError as error:
            reading.errors.append(error)
        else:
            parts += [text[at:opening], placeholder]
            reading.placeholders.append(placeholder)
        at = end + 2
    if not parts:
        return None
    parts.append(text[at:])
    pieces = [part for part in parts if part != ""]
    if len(pieces) == 1 and isinstance(pieces[0], Placeholder):
        only = pieces[0]
        return lambda scopes: _value(only, scopes)
    return lambda scopes: _url(pieces, scopes) if scopes.for_url else _text(pieces, scopes)


def _end(text: str, opening: int) -> int:
    """Return the position of the `}}` that closes a `{{`, ignoring quotes and nested braces; or -1."""
    at, open_braces, quote = opening + 2, 0, ""
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in _QUOTES:
            quote = character
        elif character == "{":
            open_braces += 1
        elif character == "}" and open_braces:
            open_braces -= 1
        elif text.startswith("}}", at):
            return at
        at += 1
    return -1


def _placeholder(text: str, position: int, pointer: str) -> Placeholder:
    try:
        expression = expressions.compile(text)
    except ExpressionError as error:
        at = position + (error.position or 0)
        raise ExpressionError(error.code, error.reason, at, pointer) from None
    secret = None
    if any(reference.root == SECRETS for reference in expression.references):
        if expression.path is None or len(expression.path) != 2:
            message = "A secret is written {{ secrets.NAME }} and nothing else within the braces."
            raise ExpressionError("bad_secret_reference", message, position, pointer)
        secret = expression.path[1]
    return Placeholder(pointer, position, expression, secret)


def _value(placeholder: Placeholder, scopes: _Scopes) -> JSON:
    if placeholder.secret is not None:
        return _secret(placeholder, scopes)
    try:
        return placeholder.expression.evaluate(scopes.names, scopes.budget)
    except ExpressionError as error:
        at = placeholder.position + (error.position or 0)
        raise ExpressionError(error.code, error.reason, at, placeholder.pointer) from None


def _secret(placeholder: Placeholder, scopes: _Scopes) -> JSON:
    value = scopes.secrets.get(placeholder.secret or "")
    if value is None:
        message = missing_secret(placeholder.secret or "")
        raise ExpressionError("unknown_secret", message, placeholder.position, placeholder.pointer)
    scopes.budget.produce(value)
    return value


def _text(pieces: list[str | Placeholder], scopes: _Scopes) -> str:
    return "".join(
        piece if isinstance(piece, str) else _write_value(_value(piece, scopes)) for piece in pieces
    )


def _url(pieces: list[str | Placeholder], scopes: _Scopes) -> str:
    text = ""
    encoded: list[tuple[int, int, Placeholder]] = []
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        value = _value(piece, scopes)
        if value is None:
            message = f"{piece.expression.text.strip()} has no value."
            raise ExpressionError("missing_value", message, piece.position, piece.pointer)
        if "://" in text:
            written = quote(_write_value(value), safe="*")
            encoded.append((len(text), len(text) + len(written), piece))
            text += written
        else:
            text += _write_value(value)
    _check_path(text, encoded)
    return text


def _check_path(url: str, encoded: list[tuple[int, int, Placeholder]]) -> None:
    """Refuse `.` and `..` in a path if a value contributed to them: HTTP clients go up by them.

    Those written entirely by the author, or by an address that is a value, stay.
    """
    authority = url.find("://") + 3
    at = authority
    for segment in _AFTER_PATH.split(url[authority:], maxsplit=1)[0].split("/"):
        end = at + len(segment)
        if at > authority and _DOTS.fullmatch(segment):
            for begin, stop, piece in encoded:
                if begin <= end and stop >= at:
                    message = "A value makes a part of the URL's path . or .., which leads to another path."
                    raise ExpressionError("bad_url", message, piece.position, piece.pointer)
        at = end + 1


def _write_value(value: JSON) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)
