"""Targets of a file on their way into a list or a monitor; invalid ones are counted and reported by row."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import NamedTuple

from models.jobs.acceptance import RowInput
from services.target_files import Upload
from services.targets import LONGEST

_MOST_NAMED = 1_000


class InvalidRow(NamedTuple):
    """A row without a valid target: its number, the text of its cell, and the error."""

    number: int
    text: str
    code: str
    message: str


class TargetImport:
    """The import of a file.

    Attributes:
        column: the name of the column that has the targets.
        rows: the number of rows read so far.
        invalid_rows: the number of rows without a valid target.
        invalid: the first 1,000 of these.
    """

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self.column = upload.header[upload.column]
        self.rows = 0
        self.invalid_rows = 0
        self.invalid: list[InvalidRow] = []

    def read_batches(self) -> AsyncGenerator[list[tuple[int, RowInput]]]:
        """Yield the rows in order, in batches; see `Upload.numbered_rows`."""
        return self._upload.numbered_rows()

    async def targets_of(
        self, batches: AsyncIterable[Sequence[tuple[int, RowInput]]]
    ) -> AsyncGenerator[list[str]]:
        """Yield the targets of batches of rows, and count the rows."""
        async for batch in batches:
            self.rows += len(batch)
            for number, row in batch:
                if row.error is not None:
                    self._note(number, row.cells[self._upload.column], *row.error)
            yield [row.target for _, row in batch if row.target is not None]

    def _note(self, number: int, text: str, code: str, message: str) -> None:
        self.invalid_rows += 1
        if len(self.invalid) < _MOST_NAMED:
            self.invalid.append(InvalidRow(number, text[:LONGEST], code, message))
