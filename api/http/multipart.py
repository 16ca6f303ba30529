"""Forms with a file (`multipart/form-data`): the file is written to disk while it arrives, then deleted."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

import orjson
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.http import json_body
from api.http.json_body import StrictRequest
from api.problems import Problem
from language.findings import pointer_of
from models.errors import FieldError, Invalid

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MEDIA_TYPE = "multipart/form-data"
FILE = "file"
"""The name of the file field."""
MAX_FILE_BYTES = 20 * 1024 * 1024

_MAX_FIELDS = 20
_MAX_FIELD_BYTES = 8 * 1024
# In addition to the file: the fields, and the boundary and headers of every part.
_MAX_BYTES = MAX_FILE_BYTES + 512 * 1024
_SLOWEST_BYTES_PER_SECOND = 16 * 1024
_IN_MEMORY_BYTES = 1024 * 1024
_PIECE_BYTES = 256 * 1024


class Form:
    """The fields and the file of a form.

    Attributes:
        fields: their texts by name.
        filename: of the file; None if it has none.
    """

    def __init__(
        self, fields: dict[str, str], filename: str | None, file: SpooledTemporaryFile[bytes]
    ) -> None:
        self.fields = fields
        self.filename = filename
        self._file = file

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of the file, in pieces of at most 256 KiB."""
        while piece := await asyncio.to_thread(self._file.read, _PIECE_BYTES):
            yield piece


@asynccontextmanager
async def reading(request: StrictRequest) -> AsyncGenerator[Form]:
    """Read the form in a request; its file exists until the block ends, on disk beyond 1 MiB.

    Raises:
        Problem: 413 as soon as it is known to be too large, 415 if it is compressed, 400 if it arrives too
            slowly: it may take 60 seconds and one more for every 16 KiB.
        Invalid: it is no form, has no file or several, or has fields that are too many, too long or not
            UTF-8.
    """
    request.refuse_packed()
    with SpooledTemporaryFile[bytes](max_size=_IN_MEMORY_BYTES) as file:
        parts = _Parts()
        try:
            await _read_parts(request, parts, file)
        except FormParserError:
            raise _invalid("The form is broken.") from None
        except TimeoutError:
            raise Problem(400, "body_too_slow", "The form took too long to come.") from None
        fields = parts.texts()
        # A client makes a new boundary for a repeat, and may send the fields in another order.
        said = [sorted(fields.items()), parts.filename, parts.file_digest.hexdigest()]
        request.parts_digest = hashlib.sha256(orjson.dumps(said)).digest()
        await asyncio.to_thread(file.seek, 0)
        yield Form(fields, parts.filename, file)


async def _read_parts(request: StrictRequest, parts: _Parts, file: SpooledTemporaryFile[bytes]) -> None:
    _, options = parse_options_header(request.headers.get("content-type"))
    if not options.get(b"boundary"):
        raise _invalid("The Content-Type names no boundary; leave that header to your HTTP client.")
    parser = MultipartParser(options[b"boundary"], parts.callbacks())
    loop = asyncio.get_running_loop()
    patient_until = loop.time() + json_body.BODY_SECONDS
    async with asyncio.timeout_at(patient_until) as patience, aclosing(request.stream(_MAX_BYTES)) as stream:
        async for chunk in stream:
            patient_until += len(chunk) / _SLOWEST_BYTES_PER_SECOND
            patience.reschedule(patient_until)
            parser.write(chunk)
            if len(parts.arrived) >= _PIECE_BYTES:
                await _write(parts, file)
    await _write(parts, file)
    if not parts.ended:
        raise _invalid("The form ends before its last boundary.")
    if not parts.has_file:
        raise Invalid([FieldError(f"/{FILE}", "required", "Send the file in this field.")])


async def _write(parts: _Parts, file: SpooledTemporaryFile[bytes]) -> None:
    arrived, parts.arrived = parts.arrived, bytearray()
    await asyncio.to_thread(file.write, arrived)


class _Parts:
    """The state of the parser.

    Attributes:
        arrived: the bytes of the file that have arrived and are not written yet.
        ended: whether the last boundary has arrived.
    """

    def __init__(self) -> None:
        self.arrived = bytearray()
        self.file_digest = hashlib.sha256()
        self.filename: str | None = None
        self.has_file = False
        self.ended = False
        self._file_bytes = 0
        self._fields: dict[str, bytearray] = {}
        self._name = ""
        self._header, self._value = bytearray(), bytearray()
        self._disposition = b""

    def callbacks(self) -> MultipartCallbacks:
        """Return the callbacks of the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._take_header,
            "on_header_value": self._take_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._take_data,
            "on_end": self._end,
        }

    def texts(self) -> dict[str, str]:
        """Return the fields except for the file.

        Raises:
            Invalid: one is not UTF-8, or has a NUL character.
        """
        return {name: _text(name, bytes(value)) for name, value in self._fields.items()}

    def _begin(self) -> None:
        self._disposition = b""

    def _take_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _take_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise _invalid("A part has no name.")
        name = self._name = _text("", options[b"name"])
        if name in self._fields or (name == FILE and self.has_file):
            raise Invalid([FieldError(pointer_of([name]), "duplicate_field", "Send this field once.")])
        if name == FILE:
            self.has_file = True
            self.filename = _text(FILE, options[b"filename"]) if b"filename" in options else None
        elif b"filename" in options:
            message = f"This is no field for a file; the file goes into `{FILE}`."
            raise Invalid([FieldError(pointer_of([name]), "unknown_field", message)])
        elif len(self._fields) == _MAX_FIELDS:
            raise _invalid(f"A form may have {_MAX_FIELDS} fields at most.")
        else:
            self._fields[name] = bytearray()

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._name == FILE:
            self._file_bytes += len(piece)
            if self._file_bytes > MAX_FILE_BYTES:
                raise Problem(413, "body_too_large", f"The file may have {MAX_FILE_BYTES} bytes at most.")
            self.file_digest.update(piece)
            self.arrived += piece
            return
        self._fields[self._name] += piece
        if len(self._fields[self._name]) > _MAX_FIELD_BYTES:
            message = f"At most {_MAX_FIELD_BYTES} bytes are allowed."
            raise Invalid([FieldError(pointer_of([self._name]), "too_long", message)])

    def _end(self) -> None:
        self.ended = True


def _text(name: str, raw: bytes) -> str:
    pointer = pointer_of([name]) if name else ""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Invalid([FieldError(pointer, "bad_encoding", "Send the form in UTF-8.")]) from None
    if "\0" in text:
        raise Invalid([FieldError(pointer, "nul_character", "The form holds a NUL character.")])
    return text


def _invalid(message: str) -> Invalid:
    return Invalid([FieldError("", "invalid_form", message)])
