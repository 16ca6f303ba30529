"""The words of an expression's text. Numbers, keywords and `$` are our additions to JMESPath."""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from language.expressions.values import JSON, ExpressionError, plain_number

MAX_DEPTH = 50


class Token(NamedTuple):
    """A word of the text: its kind (for signs the sign itself), its value and where it begins."""

    kind: str
    value: JSON
    position: int


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_WORD = _LETTERS | _DIGITS
_PAIRS = frozenset({"[?", "[]", "||", "&&", "<=", ">=", "==", "!="})
_SIGNS = frozenset(".*[](){},:@$|&<>!")


def bad(message: str, position: int) -> ExpressionError:
    """The error of a text that is no expression."""
    return ExpressionError("bad_expression", message, position)


def too_deep(position: int) -> ExpressionError:
    """The error of an expression with too many levels."""
    return ExpressionError("too_deep", f"An expression is nested at most {MAX_DEPTH} levels deep.", position)


def tokenize(text: str) -> tuple[list[Token], list[tuple[int, str]]]:
    """The words of a text, the last of kind `end`, and warnings with their places.

    Raises:
        ExpressionError: `bad_expression`, or `too_deep` for a literal.
    """
    tokenizer = _Tokenizer(text)
    return tokenizer.tokens(), tokenizer.warnings


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.warnings: list[tuple[int, str]] = []

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        _check_characters(self._text, 0)
        while self._at < len(self._text):
            if self._text[self._at] in " \t\r\n":
                self._at += 1
            else:
                found.append(self._token())
        found.append(Token("end", None, len(self._text)))
        return found

    def _token(self) -> Token:
        start, character = self._at, self._text[self._at]
        if character in _LETTERS:
            self._skip(_WORD)
            return Token("name", self._text[start : self._at], start)
        if character in _DIGITS or character == "-":
            return Token("number", self._number(), start)
        if character == '"':
            return Token("quoted", self._json(f'"{self._delimited()}"', start), start)
        if character == "'":
            return Token("literal", self._delimited().replace("\\'", "'"), start)
        if character == "`":
            return Token("literal", self._literal(), start)
        sign = self._text[start : start + 2]
        if sign == "{{":
            raise bad("An expression has no {{ and }} around it: leave the braces out.", start)
        if sign not in _PAIRS:
            sign = character
            if sign == "=":
                raise bad("One = means nothing here: write ==.", start)
            if sign not in _SIGNS:
                raise bad("There is a character that means nothing here.", start)
        self._at += len(sign)
        return Token(sign, None, start)

    def _skip(self, characters: frozenset[str]) -> None:
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1

    def _number(self) -> int | float:
        text, start = self._text, self._at
        if text[start] == "-" and start and text[start - 1] in _WORD:
            message = 'There is no arithmetic, and a name with a hyphen is in double quotes: "my-step".'
            raise bad(message, start)
        self._at += text[start] == "-"
        self._skip(_DIGITS)
        if text[self._at - 1] not in _DIGITS:
            raise bad("There is no arithmetic.", start)
        whole = self._at
        if text[whole : whole + 1] == "." and text[whole + 1 : whole + 2] in _DIGITS:
            self._at += 1
            self._skip(_DIGITS)
        exponent = self._at
        if text[exponent : exponent + 1] in ("e", "E"):
            self._at += 1 + (text[exponent + 1 : exponent + 2] in ("+", "-"))
            self._skip(_DIGITS)
            if text[self._at - 1] not in _DIGITS:
                raise bad("A number has no exponent.", start)
        digits = text[start : self._at]
        try:
            return plain_number(int(digits) if self._at == whole else float(digits))
        except ExpressionError:
            raise bad("A number is too large.", start) from None

    def _delimited(self) -> str:
        """What stands between here and the same sign again, escapes kept."""
        start, delimiter = self._at, self._text[self._at]
        at = start + 1
        while at < len(self._text) and self._text[at] != delimiter:
            at += 2 if self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise bad("A quote is not closed.", start)
        self._at = at + 1
        return self._text[start + 1 : at]

    def _literal(self) -> JSON:
        start = self._at
        content = self._delimited().replace("\\`", "`")
        try:
            return self._json(content, start)
        except ExpressionError as error:
            if error.code != "bad_expression" or content.lstrip()[:1] in ("", "[", "{", '"'):
                raise
            # The old form of a string, which the specification gave up but people still write.
            value = self._json(f'"{content.lstrip()}"', start)
            self.warnings.append((start, "a string is written in single quotes, not in backticks."))
            return value

    def _json(self, content: str, position: int) -> JSON:
        if _nesting(content) > MAX_DEPTH:
            raise too_deep(position)
        try:
            value = cast(
                JSON, json.loads(content, parse_constant=_constant, parse_float=_float, parse_int=_int)
            )
        except (ValueError, ExpressionError):
            raise bad("A quoted value is not valid JSON.", position) from None
        _check_value(value, position)
        return value


def _constant(name: str) -> float:
    raise ValueError(name)  # NaN and Infinity


def _float(digits: str) -> float:
    return plain_number(float(digits))


def _int(digits: str) -> int | float:
    return plain_number(int(digits))


def _nesting(content: str) -> int:
    """How deep the brackets of a JSON text go, those within strings aside."""
    depth = deepest = at = 0
    quoted = False
    while at < len(content):
        character = content[at]
        if quoted:
            at += character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
        at += 1
    return deepest


def _check_value(value: JSON, position: int) -> None:
    if isinstance(value, str):
        _check_characters(value, position)
    elif isinstance(value, list):
        for item in value:
            _check_value(item, position)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_characters(name, position)
            _check_value(item, position)


def _check_characters(text: str, position: int) -> None:
    # Neither has a place in what Postgres stores or UTF-8 can carry.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise bad("There is half of a surrogate pair.", position)
    if "\0" in text:
        raise bad("There is a NUL character.", position)
