"""Uploaded files as inputs of runs: row by row or whole, checked against the schema of the workflow."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import orjson

from language.findings import pointer_of
from language.triggers import MAX_COLUMN_NAME, FileUploadTrigger
from models.automations.run_targets import RunTarget
from models.errors import Conflict, FieldError, Invalid
from models.inputs.inputs import InputSchema
from services.csv_files import BadCsv, CsvReader, list_columns
from services.event_checks import EventChecks
from services.process_pool import Ask, ProcessPool

MAX_INPUT_BYTES = 1024 * 1024
"""The size limit of one run's input, as JSON."""
MAX_BYTES = 64 * 1024 * 1024
"""The size limit of the inputs of all runs of a file, each of which repeats the column names."""
MAX_ERRORS = 100
ROW_CHECKS = 5_000
"""The budget of steps for checking one row against a schema; a batch of rows takes a few seconds at most."""

_BATCH_ROWS = 500
_BATCH_BYTES = 512 * 1024
_OF_ROW = re.compile(r"/rows/(\d+)(.*)", re.DOTALL)

Row: TypeAlias = "tuple[int, dict[str, str]]"
"""The number of a row in its file, and its cells that are not empty, by the names of their columns."""


async def read_inputs(
    pool: ProcessPool,
    checks: EventChecks,
    target: RunTarget,
    filename: str | None,
    chunks: AsyncIterable[bytes],
) -> AsyncGenerator[list[Any]]:
    """Yield the inputs of runs from a CSV file in batches, in the order of its rows.

    Args:
        pool: checks rows against the schema.
        checks: checks a whole file against it.
        target: the workflow.
        filename: of the file, if it has one.
        chunks: its bytes, in pieces of any size; they are read once.

    Raises:
        Conflict: the workflow accepts no files.
        Invalid: the file is not CSV, exceeds the bounds, or violates the schema; up to MAX_ERRORS places are
            named.
        ChecksWaiting, PoolBusy, WorkLost: it could not be checked against the schema.
    """
    trigger = target.trigger
    if not isinstance(trigger, FileUploadTrigger):
        message = f"The workflow has a trigger of type {trigger.type}; only file_upload takes files."
        raise Conflict("no_file_upload_trigger", message)
    table = await _open_table(CsvReader(chunks), trigger.column_map or {})
    if trigger.mode == "whole_file":
        yield [await _whole(checks, target, filename, table)]
        return
    schema, errors = target.spec.input_schema, list[FieldError]()
    async for batch in table.batches():
        if schema is not None:
            errors += await pool.run(("uploads", target.account_id), None, _errors_of, schema, batch)
        if len(errors) >= MAX_ERRORS:
            break
        if not errors:
            yield [cells for _, cells in batch]
    if errors:
        raise Invalid([table.locate_column(error) for error in errors[:MAX_ERRORS]])


class _Table:
    """The rows of a file.

    Attributes:
        names: the names of its columns in `trigger`.
    """

    def __init__(self, reader: CsvReader, header: Sequence[str], names: list[str]) -> None:
        self.names = names
        self._reader = reader
        self._columns = {pointer_of([name]): column for name, column in zip(names, header, strict=True)}

    async def rows(self) -> AsyncGenerator[Row]:
        async for number, cells in self._reader.rows():
            if number % _BATCH_ROWS == 0:
                await asyncio.sleep(0)  # thousands of short rows can be read without a wait
            stripped = map(str.strip, cells)
            yield number, {name: cell for name, cell in zip(self.names, stripped, strict=True) if cell}

    async def batches(self) -> AsyncGenerator[list[Row]]:
        batch, size, total = list[Row](), 0, 0
        async for number, cells in self.rows():
            length = len(orjson.dumps(cells))
            size, total = size + length, total + length
            if length > MAX_INPUT_BYTES:
                raise BadCsv("too_large", number, "As JSON, a row may have 1 MiB.")
            if total > MAX_BYTES:
                message = "As JSON, the rows of a file may have 64 MiB; split the file, or take columns out."
                raise BadCsv("too_large", number, message)
            batch.append((number, cells))
            if len(batch) == _BATCH_ROWS or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def locate_column(self, error: FieldError) -> FieldError:
        """Return the error of a row with the column's name in the file."""
        found = _OF_ROW.fullmatch(error.pointer)
        return replace(error, column=self._columns.get(found[2])) if found else error


async def _open_table(reader: CsvReader, column_map: Mapping[str, str]) -> _Table:
    header = await reader.read_header()
    if errors := [*_header_errors(reader.header_number, header)]:
        raise Invalid(errors)
    names, row = list(header), reader.header_number
    positions = {name.casefold(): position for position, name in enumerate(header)}
    for column, name in column_map.items():
        if column.casefold() in positions:
            names[positions[column.casefold()]] = name
        else:
            message = (
                f"Row {row}: There is no column {column}, which the column_map names. {list_columns(header)}"
            )
            errors.append(FieldError("", "no_such_column", message, row=row, column=column))
    for name, count in Counter(names).items():
        if count > 1:
            message = f"Row {row}: By the column_map of the workflow, {count} columns are called {name}."
            errors.append(FieldError("", "duplicate_column", message, row=row, column=name))
    if errors:
        raise Invalid(errors)
    return _Table(reader, header, names)


def _header_errors(row: int, header: Sequence[str]) -> Iterator[FieldError]:
    times = Counter(map(str.casefold, header))
    for position, name in enumerate(header, 1):
        if not name:
            message = f"Row {row}: Column {position} has no name."
            yield FieldError("", "empty_column_name", message, row=row)
        elif len(name) > MAX_COLUMN_NAME:
            message = f"Row {row}: The name of column {position} has more than {MAX_COLUMN_NAME} characters."
            yield FieldError("", "too_long", message, row=row)
        elif times[name.casefold()] > 1:
            message = f"Row {row}: Another column has the name of column {position}; case does not count."
            yield FieldError("", "duplicate_column", message, row=row, column=name)


def _errors_of(ask: Ask, schema: InputSchema, rows: Sequence[Row]) -> list[FieldError]:
    """Check these rows against a schema in a process of the pool; return the errors by row number."""
    errors: list[FieldError] = []
    for number, cells in rows:
        try:
            schema.check(cells, f"/rows/{number}", len(orjson.dumps(cells)), ROW_CHECKS)
        except Invalid as invalid:
            errors += [replace(error, row=number) for error in invalid.errors]
        if len(errors) >= MAX_ERRORS:
            break
    return errors


async def _whole(
    checks: EventChecks, target: RunTarget, filename: str | None, table: _Table
) -> dict[str, Any]:
    """Return the whole file as the input of one run."""
    numbers, rows = list[int](), list[dict[str, str]]()
    payload: dict[str, Any] = {"filename": filename, "columns": table.names, "rows": rows}
    size = len(orjson.dumps(payload))
    async for number, cells in table.rows():
        size += len(orjson.dumps(cells)) + 1
        if size > MAX_INPUT_BYTES:
            message = (
                "As JSON, what one run starts with may have 1 MiB; with mode per_row, each row is a run."
            )
            raise BadCsv("too_large", number, message)
        numbers.append(number)
        rows.append(cells)
    try:
        await checks.check_input(target, payload, "")
    except Invalid as invalid:
        raise Invalid(
            [table.locate_column(_number_row(error, numbers)) for error in invalid.errors]
        ) from None
    return payload


def _number_row(error: FieldError, numbers: Sequence[int]) -> FieldError:
    """Return the error of the row at an index, with the row's number in the file."""
    found = _OF_ROW.fullmatch(error.pointer)
    if found is None:
        return error
    number = numbers[int(found[1])]
    return replace(error, pointer=f"/rows/{number}{found[2]}", row=number)
