"""Files of targets that are imported: a form with a CSV file, as for bulk jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel, Field

from api.deps import Caller, Services
from api.http import multipart
from api.http.json_body import StrictRequest
from api.http.multipart import Form, reading
from api.http.openapi import problems
from api.http.validation import Body, validate_body
from api.problems import Problem
from models.lists.lists import TargetType
from models.owned_targets import MAX_TARGETS
from services.target_files import open_csv
from services.target_import import TargetImport
from services.targets import LONGEST


class _ImportForm(Body):
    """The fields beside the file."""

    column: str | None = Field(
        None,
        max_length=LONGEST,
        description="The name of the column that has the targets, in any case; without it, one with a usual"
        " name, the only one, or the one in which most targets stand is taken.",
    )


class InvalidRow(BaseModel):
    """A row whose cell is not a target of the type."""

    row: int = Field(description="Its number, as a spreadsheet shows it: the header is 1.")
    target: str = Field(description="The cell, as it was sent; the first 500 characters.")
    reason: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="What is wrong and what would be right.")


class TargetsImported(BaseModel):
    """The result of importing a file."""

    column: str = Field(description="The column from which the targets were taken.")
    rows: int = Field(description="How many rows the file has, without the header and blank ones.")
    added: int = Field(description="How many targets are there now that were not.")
    duplicates: int = Field(description="How many were there already, or came more than once.")
    invalid_rows: int = Field(description="How many rows have no target of the type.")
    invalid: list[InvalidRow] = Field(description="The first 1,000 of these.")


class GivenFile:
    """A file whose rows are still to be read."""

    def __init__(self, form: Form, column: str | None) -> None:
        self._form = form
        self._column = column

    async def open(self, services: Services, caller: Caller, type: TargetType) -> TargetImport:
        """Find the column with the targets.

        Raises:
            BadCsv, PoolBusy, WorkLost: as `open_csv`.
        """
        pool, account_id = services.pool, caller.account_id
        chunks = self._form.chunks()
        return TargetImport(await open_csv(pool, account_id, type, chunks, self._column, MAX_TARGETS))


async def _read_form(request: Request) -> AsyncGenerator[GivenFile]:
    """Read the form; its file exists until the request has its answer."""
    assert isinstance(request, StrictRequest)
    if request.media_type != multipart.MEDIA_TYPE:
        message = "Send a form with a file (multipart/form-data)."
        raise Problem(415, "unsupported_media_type", message)
    async with reading(request) as form:
        # A form in a browser also sends fields that were left empty.
        filled = {name: text for name, text in form.fields.items() if text.strip()}
        yield GivenFile(form, validate_body(_ImportForm, filled, None).column)


File = Annotated[GivenFile, Depends(_read_form)]


def show_import(done: TargetImport, added: int) -> TargetsImported:
    """Return the result of an import that added this many targets."""
    rows = [
        InvalidRow(row=one.number, target=one.text, reason=one.code, message=one.message)
        for one in done.invalid
    ]
    return TargetsImported(
        column=done.column,
        rows=done.rows,
        added=added,
        duplicates=done.rows - done.invalid_rows - added,
        invalid_rows=done.invalid_rows,
        invalid=rows,
    )


def takes_file(*codes: str) -> dict[str, Any]:
    """Return the common options of routes that import files; `codes` are a route's further codes."""
    column = _ImportForm.model_json_schema()["properties"]["column"]
    form = {
        "title": "TargetsFile",
        "type": "object",
        "properties": {
            "column": {"type": "string", "maxLength": LONGEST, "description": column["description"]},
            multipart.FILE: {
                "type": "string", "contentMediaType": "text/csv", "title": "File",
                "description": f"A CSV file with a header: at most {MAX_TARGETS:,} rows, 200 columns and"
                " 20 MiB, in UTF-8.",
            },
        },
        "required": [multipart.FILE],
        "examples": [{"file": "ip,note\n8.8.8.8,resolver\n"}],
    }  # fmt: skip
    content = {
        multipart.MEDIA_TYPE: {"schema": form, "encoding": {multipart.FILE: {"contentType": "text/csv"}}}
    }
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
        "responses": problems("too_busy", "work_lost", *codes),
    }
