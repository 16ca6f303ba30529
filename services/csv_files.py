"""CSV files: read row by row while their bytes arrive, and written so that no spreadsheet executes a cell.

Rows are numbered as in spreadsheets, from 1 and including blank rows. Python's csv module parses in strict
mode; only the delimiter is guessed.
"""

from __future__ import annotations

import asyncio
import codecs
import csv
import io
import re
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import orjson

from models.errors import FieldError, Invalid

MAX_CELL, MAX_ROW = 100_000, 250_000
"""The most characters of a cell and of a row, whatever the bounds: the csv module reads no longer cells."""

_PIECE = 64 * 1024
_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"?')
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_NOT_CSV = {
    b"PK\x03\x04": "a ZIP archive, as Excel workbooks are",
    b"\x1f\x8b": "a gzip file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
}
_LONGEST_START = 4
_BLANK_PER_ROW = 10
_NAMES_SHOWN, _NAME_SHOWN = 20, 50
# Characters that a spreadsheet takes for the start of a formula or a command, also after invisible ones.
_EXECUTED, _SKIPPED = "=+-@", "\t\r\n"
_UNSHOWN_CATEGORIES = "CMZ"  # controls and formats, marks, spaces
_UNSHOWN_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # zero-width, or blank


class BadCsv(Invalid):
    """A file that is not CSV, or exceeds the bounds."""

    def __init__(self, code: str, row: int, message: str, column: str | None = None) -> None:
        super().__init__([FieldError("", code, f"Row {row}: {message}", row=row, column=column)])


@dataclass(frozen=True)
class Bounds:
    """The greatest size of a file.

    Attributes:
        rows: without the header, and without blank rows while those are fewer than ten times as many.
        columns: of the header.
        cell: characters of a cell, at most `MAX_CELL`.
    """

    rows: int = 10_000
    columns: int = 200
    cell: int = 10_000

    def __post_init__(self) -> None:
        """Reject bounds that the csv module cannot read."""
        if self.cell > MAX_CELL:
            raise ValueError(f"cells of more than {MAX_CELL} characters cannot be read")


class Row(NamedTuple):
    """A row: its number, and as many cells as the header has."""

    number: int
    cells: list[str]


class _Starved(Exception):
    """The rest of a row has not arrived yet."""


class CsvReader:
    """Reads a file: `read_header` first, then `rows`. It holds a piece of 64 KiB and the current row."""

    def __init__(self, chunks: AsyncIterable[bytes], bounds: Bounds | None = None) -> None:
        """Prepare; nothing is read yet.

        Args:
            chunks: the file's bytes, in pieces of any size.
            bounds: its greatest size.
        """
        self._bounds = bounds or Bounds()
        self._records = self._read_rows(chunks)
        self._pending = ""
        self._ended = False
        self._delimiter: str | None = None
        self._number = 0
        self._header: list[str] = []
        self.header_number = 1
        """The number of the header row."""

    async def read_header(self) -> list[str]:
        """Return the cells of the first row that is not blank, stripped of spaces.

        Raises:
            BadCsv: the file is not CSV, has no rows, or too many columns.
        """
        async for row in self._records:
            self.header_number = row.number
            self._header = [cell.strip() for cell in row.cells]
            if len(self._header) > self._bounds.columns:
                message = f"A file may have {self._bounds.columns} columns."
                raise BadCsv("too_many_columns", row.number, message)
            return self._header
        raise BadCsv("no_rows", 1, "The file is empty.")

    async def rows(self) -> AsyncGenerator[Row]:
        """Yield the non-blank rows after the header; missing cells become empty ones.

        Raises:
            BadCsv: at the first invalid row, after the rows before it; or if there is no row.
        """
        count, width = 0, len(self._header)
        async for number, cells in self._records:
            count += 1
            if count > self._bounds.rows:
                raise self._too_many(number)
            if any(cells[width:]):
                message = f"There are {len(cells)} cells, and {width} columns."
                raise BadCsv("too_many_columns", number, message)
            yield Row(number, [*cells[:width], *[""] * (width - len(cells))])
        if not count:
            raise BadCsv("no_rows", self._number, "There is no row after the header.")

    def position_of(self, column: str) -> int:
        """Return the index of a column by its name, ignoring case.

        Raises:
            BadCsv: the header has no such column.
        """
        names = [name.casefold() for name in self._header]
        try:
            return names.index(column.strip().casefold())
        except ValueError:
            message = f"The header has no column of this name. {list_columns(self._header)}"
            raise BadCsv("no_such_column", self.header_number, message) from None

    async def _read_rows(self, chunks: AsyncIterable[bytes]) -> AsyncGenerator[Row]:
        """Yield all rows that are not blank, with the cells that they have."""
        enough = 0
        try:
            async for text in _decode_chunks(chunks):
                self._pending += text
                # An incomplete row is parsed again only when its text has doubled; otherwise a long row would
                # take long.
                if len(self._pending) >= enough:
                    for row in self._parse_pending():
                        yield row
                    enough = 2 * len(self._pending)
                    if len(self._pending) > MAX_ROW:
                        raise self._too_long(self._number + 1)
                # Chunks that are available arrive without a wait, so parsing them all would block other
                # tasks.
                await asyncio.sleep(0)
        except UnicodeDecodeError:
            for row in self._parse_pending():
                yield row
            message = "This is neither UTF-8, nor UTF-16 that begins with a BOM; save the file as UTF-8."
            raise BadCsv("bad_encoding", self._number + 1, message) from None
        self._ended = True
        for row in self._parse_pending():
            yield row

    def _parse_pending(self) -> Generator[Row]:
        """Yield the complete rows of the pending text, and keep the rest pending."""
        self._delimiter = self._delimiter or self._guess_delimiter()
        if self._delimiter is None:
            return
        text = io.StringIO(self._pending, newline="")
        rows = csv.reader(self._lines(text), delimiter=self._delimiter, strict=True)
        begin = 0
        try:
            for cells in rows:
                self._number += 1
                self._check(cells, text.tell() - begin)
                begin = text.tell()
                if any(cells):
                    yield Row(self._number, cells)
        except _Starved:
            pass
        except csv.Error:
            raise self._row_error(self._pending[begin:]) from None
        self._pending = self._pending[begin:]

    def _lines(self, text: io.StringIO) -> Iterator[str]:
        while line := text.readline():
            # A carriage return at the end may be the first half of a line ending.
            whole = line.endswith("\n") or (line.endswith("\r") and text.tell() < len(self._pending))
            if not (whole or self._ended):
                break
            yield line
        if not self._ended:
            raise _Starved

    def _guess_delimiter(self) -> str | None:
        """Return the most frequent delimiter of the first row; None while the row is incomplete."""
        unquoted = _QUOTED.sub("x", self._pending).replace("\r", "\n").lstrip("\n")
        line, end, _ = unquoted.partition("\n")
        known = end or self._ended or len(self._pending) >= _PIECE
        return max(_DELIMITERS, key=line.count) if known else None

    def _check(self, cells: Sequence[str], length: int) -> None:
        if self._number > (1 + _BLANK_PER_ROW) * self._bounds.rows:
            raise self._too_many(self._number)
        if length > MAX_ROW:
            raise self._too_long(self._number)
        for position, cell in enumerate(cells):
            column = self._header[position] if position < len(self._header) else None
            if len(cell) > self._bounds.cell:
                raise self._too_long(self._number, column)
            if "\0" in cell:
                message = "There is a NUL character; a file in UTF-16 must begin with a BOM."
                raise BadCsv("nul_character", self._number, message, column)

    def _too_many(self, number: int) -> BadCsv:
        return BadCsv("too_many_rows", number, f"A file may have {self._bounds.rows:,} rows.")

    def _too_long(self, number: int, column: str | None = None) -> BadCsv:
        bounds = f"A cell may have {self._bounds.cell:,} characters, and a row {MAX_ROW:,}"
        return BadCsv("cell_too_long", number, f"{bounds}; is there a quote that is not closed?", column)

    def _row_error(self, text: str) -> BadCsv:
        """Return the error of the row that `text` begins with."""
        try:
            # Without strict mode only a long cell is rejected.
            next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter or ","), None)
        except csv.Error:
            return self._too_long(self._number + 1)
        message = (
            "A quote is not closed, or something follows the closing one. Quotes in quoted cells come twice."
        )
        return BadCsv("bad_quoting", self._number + 1, message)


def list_columns(header: Sequence[str]) -> str:
    """Return a sentence that names the columns, or the first of them if there are many."""
    names = [f"{name[:_NAME_SHOWN]}…" if len(name) > _NAME_SHOWN else name for name in header[:_NAMES_SHOWN]]
    return f"Its columns are: {', '.join(names)}{', …' if len(header) > _NAMES_SHOWN else ''}."


async def write_csv(header: Sequence[str], rows: AsyncIterable[Sequence[Any]]) -> AsyncGenerator[bytes]:
    """Write a file in UTF-8 with commas, in pieces of about 64 KiB.

    Args:
        header: the names of the columns.
        rows: one value for each column; `cell_text` converts them.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_harmless(name) for name in header])
    async for row in rows:
        writer.writerow([cell_text(value) for value in row])
        if text.tell() >= _PIECE:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def cell_text(value: Any) -> str:
    """Return a JSON value as the text of a cell.

    Null is empty, arrays of scalars are joined by `; `, other arrays and objects are JSON. A text that a
    spreadsheet would execute gets a leading `'`; a number never does.
    """
    if value is None:
        return ""
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in cast(list[Any], value)):
        return _harmless("; ".join(_plain(one) for one in cast(list[Any], value) if one is not None))
    return _harmless(value) if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _harmless(text: str) -> str:
    if text[:1].isascii() and text[:1].isalnum():
        return text
    first = next((one for one in text if not _is_unshown(one)), "")
    # Also in full-width or small forms, which some programs read as the usual ones.
    executed = unicodedata.normalize("NFKC", first)[:1]
    return f"'{text}" if text[:1] in (*_SKIPPED,) or (executed and executed in _EXECUTED) else text


def _is_unshown(character: str) -> bool:
    return unicodedata.category(character)[0] in _UNSHOWN_CATEGORIES or character in _UNSHOWN_LETTERS


async def _decode_chunks(chunks: AsyncIterable[bytes]) -> AsyncGenerator[str]:
    """Yield the text of a file.

    Raises:
        BadCsv: it is a file of another type.
        UnicodeDecodeError: after the valid text before the error.
    """
    start, decoder = b"", None
    async for chunk in chunks:
        start += chunk
        if decoder is None and len(start) >= _LONGEST_START:
            decoder, start = _choose_decoder(start)
        if decoder is not None:
            for text in _texts(decoder, start, final=False):
                yield text
            start = b""
    if decoder is None:
        decoder, start = _choose_decoder(start)
    for text in _texts(decoder, start, final=True):
        yield text


def _choose_decoder(start: bytes) -> tuple[codecs.IncrementalDecoder, bytes]:
    """Return the decoder for a file with this start, and the part of the start to decode."""
    for mark, sort in _NOT_CSV.items():
        if start.startswith(mark):
            raise BadCsv("not_csv", 1, f"This is {sort}; export the table as CSV.")
    bom, encoding = next((one for one in _BOMS.items() if start.startswith(one[0])), (b"", "utf-8"))
    return codecs.getincrementaldecoder(encoding)(), start.removeprefix(bom)


def _texts(decoder: codecs.IncrementalDecoder, data: bytes, *, final: bool) -> Iterator[str]:
    try:
        for begin in range(0, len(data), _PIECE):
            yield decoder.decode(data[begin : begin + _PIECE])
        if final:
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        yield error.object[: error.start].decode(error.encoding)
        raise
