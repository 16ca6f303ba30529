"""Strict JSON: request bodies are read up to their limit and parsed once, by rules of our own.

Refused, always with a 4xx: another content type, more bytes than the route allows, nesting over 100, `NaN`
and numbers beyond the range of a double, integers beyond 64 bits, NUL characters, lone surrogates, and bytes
that are not UTF-8. If an object has a name twice, the last value counts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import TypeAlias

import orjson
from fastapi import Request
from starlette.requests import ClientDisconnect

from api.http import query
from api.problems import Problem
from language.json_text import MAX_DEPTH, is_too_deep, outside_strings, without_escapes
from models.errors import FieldError, describe_errors

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"

MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 60.0

# An odd number of backslashes makes the escape of a NUL; an even one is a backslash and the text u0000.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_NUL_ESCAPE = rb"\u0000"
# An integer of fewer digits fits in 64 bits. Digits are replaced by zeros, because a fixed text is found
# quickly.
_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 19
_TO_COMMAS = bytes.maketrans(b"[]{}: \t\r\n", b",,,,,,,,,")
_INTEGER = re.compile(rb"-?[0-9]+")
_BEFORE_VALUES = frozenset([b"", *(bytes([byte]) for byte in b"[:, \t\r\n")])


def parse_json(raw: bytes) -> JSON:
    """Parse a body.

    Raises:
        Problem: 400 with `invalid_json`, `too_deep`, `number_out_of_range` or `invalid_text`.
    """
    if is_too_deep(raw):
        raise _refusal("too_deep", f"Arrays and objects may be nested {MAX_DEPTH} deep at most.")
    if _MANY_DIGITS in raw.translate(_TO_ZEROS):
        _check_integers(raw)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        _check_encoding(raw)
        raise _refusal("invalid_json", f"The body is not JSON: {error.msg} at byte {error.pos}.") from None
    if b"u0000" in raw and (nul := _NUL.search(raw)):
        message = f"Text may not contain NUL characters: one is at byte {nul.end() - len(_NUL_ESCAPE)}."
        raise _refusal("invalid_text", message)
    return value


def _check_encoding(raw: bytes) -> None:
    """Refuse bytes that are not UTF-8, whose place orjson does not tell."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise _refusal("invalid_json", f"The body is not UTF-8: byte {error.start} is wrong.") from None


def _check_integers(raw: bytes) -> None:
    outside = outside_strings(without_escapes(raw))
    if _MANY_DIGITS not in outside.translate(_TO_ZEROS):
        return
    for text in outside.translate(_TO_COMMAS).split(b","):
        if len(text) < 20 or not _INTEGER.fullmatch(text):  # 19 digits fit without a sign
            continue
        if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
            at = raw.find(text)
            # The same digits may be a part of a string before it.
            place = f": the one at byte {at} does not" if raw[at - 1 : at] in _BEFORE_VALUES else ""
            raise _refusal("number_out_of_range", f"Integers must fit in 64 bits{place}.")


def _refusal(code: str, message: str) -> Problem:
    return Problem(400, code, message, errors=[FieldError("", code, message)])


class StrictRequest(Request):
    """A request whose body is read and parsed by the rules of this module, once."""

    def __init__(self, request: Request, limit: int, parameters: Collection[str]) -> None:
        super().__init__(request.scope, request.receive)
        self._limit = limit
        self._parameters = parameters
        self._raw: bytes | None = None
        self.parts_digest: bytes | None = None
        """A digest of the parts of a form that was read, independent of how they were framed."""

    def unknown_parameters(self) -> list[FieldError]:
        """Return an error for each name in the query string that the route does not know."""
        if not self.scope["query_string"] or not query.is_checked(self.scope["path"]):
            return []
        return query.find_unknown(self.query_params, self._parameters)

    def refuse_bad_parameters(self) -> None:
        """Refuse a query string with names that the route does not know, or with a NUL character.

        Raises:
            Problem: 400 `unknown_parameter` or `invalid_input`.
        """
        if found := self.unknown_parameters():
            raise Problem(400, "unknown_parameter", describe_errors(found), errors=found)
        if b"%00" in self.scope["query_string"] and query.is_checked(self.scope["path"]):
            if found := query.find_nul(self.query_params.multi_items()):
                raise Problem(400, "invalid_input", describe_errors(found), errors=found)

    @property
    def media_type(self) -> str:
        """The content type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def stream(self, limit: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the body's chunks, for uploads and forms.

        Args:
            limit: in bytes; the route's limit by default.

        Raises:
            Problem: 413, as soon as it is known to be too long; 400 if the client leaves.
        """
        limit = self._limit if limit is None else limit
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise _too_large(limit)
        size = 0
        try:
            async for chunk in super().stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                yield chunk
        except ClientDisconnect:
            # No client reads this; it only keeps the log from calling it a fault of ours.
            raise Problem(400, "invalid_request", "The body did not come in full.") from None

    def refuse_packed(self) -> None:
        """Refuse a body with a Content-Encoding.

        Raises:
            Problem: 415.
        """
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            message = "Send the body as it is, without Content-Encoding."
            raise Problem(415, "unsupported_content_encoding", message)

    async def raw(self) -> bytes:
        """Return the body, of any type.

        Raises:
            Problem: 415 if it is compressed, 413 as soon as it is known to be too long, 400 if it arrives too
                slowly.
        """
        self.refuse_packed()
        if self._raw is None:
            try:
                async with asyncio.timeout(BODY_SECONDS), aclosing(self.stream()) as stream:
                    self._raw = b"".join([chunk async for chunk in stream])
            except TimeoutError:
                raise Problem(400, "body_too_slow", "The body took too long to come.") from None
        return self._raw

    async def content(self) -> bytes:
        """Return the content that a repeat of the request shares: the body, or the digest of a form's parts.

        Raises:
            Problem: as `raw`.
        """
        return self.parts_digest or await self.raw()

    async def body(self) -> bytes:
        """Return the body, which must be JSON or empty.

        Raises:
            Problem: 413, or 415 for another content type.
        """
        raw = await self.raw()
        if raw and self.media_type != "application/json":
            raise Problem(415, "unsupported_media_type", "The body must be JSON: application/json.")
        return raw

    async def json(self) -> JSON:
        """Return the parsed body.

        Raises:
            Problem: as `parse_json`.
        """
        return parse_json(await self.raw())


def _too_large(limit: int) -> Problem:
    # The server drops the rest of the body, so that the client is sure to see this answer.
    return Problem(413, "body_too_large", f"The body may have {limit} bytes at most.")
