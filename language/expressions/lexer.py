"""The words of an expression's text: those of jmespath's lexer, with all of JSON's numbers and `$`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast

from jmespath import lexer
from jmespath.exceptions import EmptyExpressionError, LexerError

from language.expressions.values import JSON, ExpressionError, plain_number

MAX_DEPTH = 50

# As jmespath has it: with `type`, `value`, `start` and `end`.
Token = dict[str, Any]

# What stands between a sign and the same sign again, escapes kept.
_QUOTED = {sign: re.compile(rf"{sign}((?:[^{sign}\\]|\\.)*){sign}", re.DOTALL) for sign in "\"'`"}
# Its group is what follows the sign of an exponent.
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?([0-9]*))?")


def bad(message: str, position: int) -> ExpressionError:
    """Return the error of a text that is no expression."""
    return ExpressionError("bad_expression", message, position)


def too_early(position: int) -> ExpressionError:
    """Return the error of a text that ends where more is needed."""
    return bad("The expression ends too early.", position)


def too_deep(position: int) -> ExpressionError:
    """Return the error of an expression with too many levels."""
    return ExpressionError("too_deep", f"An expression is nested at most {MAX_DEPTH} levels deep.", position)


class Lexer(lexer.Lexer):
    """Words with places; a number that is not whole is a `decimal`, and `$` is the `root`.

    Attributes:
        warnings: what the author may have meant otherwise, with its places.
    """

    SIMPLE_TOKENS: ClassVar[dict[str, str]] = {**lexer.Lexer.SIMPLE_TOKENS, "$": "root"}

    def __init__(self) -> None:
        self.warnings: list[tuple[int, str]] = []

    def tokenize(self, expression: str) -> Iterator[Token]:
        """Give the words of a text, the last of type `eof`.

        Raises:
            ExpressionError: `bad_expression`, or `too_deep` for a literal.
        """
        _check_characters(expression, 0)
        try:
            for token in super().tokenize(expression):
                if token["type"] == "number":
                    token = self._number(token)
                elif token["type"] == "lbrace" and expression.startswith("{{", token["start"]):
                    message = "An expression has no {{ and }} around it: leave the braces out."
                    raise bad(message, token["start"])
                yield token
        except EmptyExpressionError:
            raise too_early(0) from None
        except LexerError as error:
            raise self._meaningless(error.lexer_value, error.lexer_position) from None

    def _meaningless(self, character: str, position: int) -> ExpressionError:
        if character == "-":
            return self._arithmetic(position)
        if character == "=":
            return bad("One = means nothing here: write ==.", position)
        if character in ("+", "/", "%"):
            return bad("There is no arithmetic; sum([a, b]) adds.", position)
        return bad("There is a character that means nothing here.", position)

    def _arithmetic(self, position: int) -> ExpressionError:
        if self._follows_word(position):
            message = 'There is no arithmetic, and a name with a hyphen is in double quotes: "my-step".'
            return bad(message, position)
        return bad("There is no arithmetic.", position)

    def _follows_word(self, position: int) -> bool:
        return position > 0 and self._expression[position - 1] in self.VALID_IDENTIFIER

    def _number(self, token: Token) -> Token:
        """Read on where jmespath has read a number's whole part."""
        start = token["start"]
        found = _NUMBER.match(self._expression, start)
        if found is None or (found[0][0] == "-" and self._follows_word(start)):
            raise self._arithmetic(start)
        if found[1] == "":
            raise bad("A number has no exponent.", start)
        self._position = found.end() - 1
        self._next()
        try:
            value = plain_number(token["value"] if found.end() == token["end"] else float(found[0]))
        except ExpressionError:
            raise bad("A number is too large.", start) from None
        return {**token, "type": "number" if isinstance(value, int) else "decimal", "value": value}

    def _consume_until(self, delimiter: str) -> str:
        found = _QUOTED[delimiter].match(self._expression, self._position)
        if found is None:
            raise bad("A quote is not closed.", self._position)
        self._position = found.end() - 1
        self._next()
        return found[1]

    def _consume_quoted_identifier(self) -> Token:
        start = self._position
        name = _json('"' + self._consume_until('"') + '"', start)
        return {"type": "quoted_identifier", "value": name, "start": start, "end": self._position}

    def _consume_literal(self) -> Token:
        start = self._position
        content = self._consume_until("`").replace("\\`", "`")
        try:
            value = _json(content, start)
        except ExpressionError as error:
            if error.code != "bad_expression" or content.lstrip()[:1] in ("", "[", "{", '"'):
                raise
            # The old form of a string, which the specification gave up but people still write.
            value = _json(f'"{content.lstrip()}"', start)
            self.warnings.append((start, "a string is written in single quotes, not in backticks."))
        return {"type": "literal", "value": value, "start": start, "end": self._position}


def _json(content: str, position: int) -> JSON:
    if _nesting(content) > MAX_DEPTH:
        raise too_deep(position)
    try:
        value = cast(JSON, json.loads(content, parse_constant=_constant, parse_float=_float, parse_int=_int))
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
    """Return the depth of the brackets of a JSON text, those within strings aside."""
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
