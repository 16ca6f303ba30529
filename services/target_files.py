"""Tables of targets that an account uploads: the column with the targets, and the checks of its cells."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from typing import TypeAlias
from uuid import UUID

from models.errors import FieldError
from models.jobs.acceptance import RowInput
from services.csv_files import BadCsv, Bounds, CsvReader, Row, list_columns
from services.process_pool import ProcessPool
from services.targets import LONGEST, check_targets

_BATCH_ROWS = 1_000
_BATCH_CHARACTERS = 1024 * 1024
_SAMPLED_ROWS = 20
_EMPTY = FieldError("", "empty_target", "The cell has no target.")

_NO_WORD = re.compile(r"[^\w]|_")
_EMAIL_NAMES = ("email", "emailaddress", "mail", "mailaddress", "workemail", "businessemail")
# Without case, spaces and punctuation, the likeliest first.
_NAMES = {
    "email": _EMAIL_NAMES,
    "breach": _EMAIL_NAMES,
    "validate": _EMAIL_NAMES,
    "phone": ("phone", "phonenumber", "mobile", "mobilephone", "mobilenumber", "cell", "tel", "telephone"),
    "ip": ("ip", "ipaddress", "ipaddr", "ipv4", "ipv6"),
    "domain": ("domain", "domainname", "website", "host", "hostname"),
    "company": ("company", "companyname", "organisation", "organization", "name", "domain", "website"),
    "username": ("username", "user", "handle", "nickname", "login"),
    "websearch": ("query", "search", "searchterm", "keyword", "term", "q"),
    "darkweb": ("query", "search", "searchterm", "keyword", "term", "q"),
}
_ALWAYS = ("target", "targets")
# The types whose targets can be recognised among other texts, each with the kind that recognises them.
_TOLD = {kind: kind for kind in ("email", "ip", "phone", "domain")} | {"breach": "email", "validate": "email"}

Batch: TypeAlias = "list[Row]"
Checking: TypeAlias = "tuple[ProcessPool, UUID, str]"
"""The arguments of `check_targets` except for the texts."""


class Upload:
    """A table with a column of targets.

    Attributes:
        header: the names of its columns.
        column: the position of the column that has the targets.
    """

    def __init__(
        self, checking: Checking, header: list[str], column: int, batches: AsyncGenerator[Batch]
    ) -> None:
        self.header = header
        self.column = column
        self._checking = checking
        self._batches = batches

    async def rows(self) -> AsyncGenerator[list[RowInput]]:
        """Yield the rows in order, in batches of at most 1,000. They can be read once.

        Raises:
            BadCsv: at the batch with an invalid row.
            PoolBusy, WorkLost: as `check_targets`.
        """
        async with aclosing(self.numbered_rows()) as batches:
            async for batch in batches:
                yield [row for _, row in batch]

    async def numbered_rows(self) -> AsyncGenerator[list[tuple[int, RowInput]]]:
        """Yield the same rows, each with its number in the file, from 1 and including the header."""
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                numbers = [row.number for row in batch]
                yield [*zip(numbers, await self._check_batch(batch), strict=True)]

    async def _check_batch(self, batch: Batch) -> list[RowInput]:
        texts = [row.cells[self.column].strip() for row in batch]
        checked = await check_targets(*self._checking, [text for text in texts if text])
        targets = iter(checked.targets)
        errors = {one.position: (one.code, one.message) for one in checked.rejected}
        given: list[RowInput] = []
        position = 0
        for (_, cells), text in zip(batch, texts, strict=True):
            error = errors.get(position) if text else (_EMPTY.code, _EMPTY.message)
            given.append(RowInput(cells, None if error else next(targets), error))
            position += bool(text)
        return given


async def open_csv(
    pool: ProcessPool,
    account_id: UUID,
    type: str,
    chunks: AsyncIterable[bytes],
    column: str | None,
    most_rows: int = Bounds.rows,
) -> Upload:
    """Open a CSV file, read its first rows, and find the column with the targets.

    Args:
        pool: checks the targets.
        account_id: the owner of the file.
        type: the kind of lookup that the targets are for.
        chunks: the file's bytes, in pieces of any size; they are read once.
        column: the name of the column, in any case. Without it, the column is the one with a usual name for
            the type, or the only one, or the one whose first rows hold the most targets of the type.
        most_rows: the most rows of the file.

    Raises:
        BadCsv: the file is not CSV, exceeds the bounds, or has no header, no rows or no such column.
        PoolBusy, WorkLost: as `check_targets`.
    """
    reader = CsvReader(chunks, Bounds(rows=most_rows))
    header = await reader.read_header()
    batches = _batches(reader)
    first = await anext(batches)
    checking = (pool, account_id, type)
    found = await _find_column(checking, header, first) if column is None else reader.position_of(column)
    if found is None:
        message = f"Say in the field column which one has the targets. {list_columns(header)}"
        raise BadCsv("column_required", reader.header_number, message)
    kinds = {"email", "ip", _TOLD.get(type, "email")}
    if column is not None:
        kinds.discard("domain")  # such as `company.name`, which may well be a column's name
    for kind in kinds:
        if (await check_targets(pool, account_id, kind, [header[found][: LONGEST + 1]])).targets:
            message = "This is a target already; the first row must be a header that names the columns."
            raise BadCsv("no_header", reader.header_number, message)
    return Upload(checking, header, found, _prepend_batch(first, batches))


def open_targets(pool: ProcessPool, account_id: UUID, type: str, targets: Sequence[str]) -> Upload:
    """Open an array of targets as a table with the one column `target`; see `open_csv`."""
    return Upload((pool, account_id, type), ["target"], 0, _table(targets))


async def _find_column(checking: Checking, header: list[str], rows: Batch) -> int | None:
    """Return the index of the column with the targets, or None if it is unclear."""
    if len(header) == 1:
        return 0
    names = [_NO_WORD.sub("", name).casefold() for name in header]
    for name in (*_NAMES[checking[2]], *_ALWAYS):
        if name in names:
            return names.index(name)
    return await _fullest(checking, len(header), rows[:_SAMPLED_ROWS])


async def _fullest(checking: Checking, width: int, rows: Batch) -> int | None:
    """Return the column where most of these rows have a target; None if two columns tie."""
    pool, account_id, type = checking
    if type not in _TOLD:
        return None
    texts = [cell[: LONGEST + 1] for row in rows for cell in row.cells]
    misses = [0] * width
    for one in (await check_targets(pool, account_id, _TOLD[type], texts)).rejected:
        misses[one.position % width] += 1
    best, second = sorted(range(width), key=misses.__getitem__)[:2]
    return best if misses[best] < misses[second] else None


async def _batches(reader: CsvReader) -> AsyncGenerator[Batch]:
    batch: Batch = []
    characters = 0
    async for row in reader.rows():
        batch.append(row)
        characters += sum(map(len, row.cells))
        if len(batch) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


async def _prepend_batch(first: Batch, others: AsyncGenerator[Batch]) -> AsyncGenerator[Batch]:
    yield first
    async for batch in others:
        yield batch


async def _table(targets: Sequence[str]) -> AsyncGenerator[Batch]:
    for start in range(0, len(targets), _BATCH_ROWS):
        batch = targets[start : start + _BATCH_ROWS]
        # Numbered as in a file, whose first row is the header.
        yield [Row(number, [target]) for number, target in enumerate(batch, start + 2)]
