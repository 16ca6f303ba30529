"""Bodies that make a bulk job: a form with a CSV file, or JSON with the targets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, ClassVar, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from api.deps import Caller, Services
from api.http import multipart
from api.http.json_body import StrictRequest, parse_json
from api.http.multipart import Form, reading
from api.http.validation import Body, validate_body
from api.problems import Problem
from language.definition import Name
from models.errors import FieldError, Invalid
from models.jobs.acceptance import NewJob
from models.jobs.jobs import JobType, JobView
from providers.registry import lookup_fields
from services.jobs import price_of
from services.target_files import Upload, open_csv, open_targets
from services.targets import LONGEST

MAX_TARGETS = 10_000
MAX_JSON_BYTES = 4 * 1024 * 1024

_TYPE = "The kind of lookup that is done for each row."
_NAME = "What the job is called."
_FIELDS = (
    "the only ones that are looked up, dotted (`location.city`) or blocks (`location`); without it, all."
)


class JobOfTargets(Body):
    """Targets to look up, one a row."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"type": "ip", "targets": ["8.8.8.8", "1.1.1.1"]}]}
    )
    read_only: ClassVar[frozenset[str]] = frozenset(JobView.model_fields) - {"type", "name", "fields"}

    type: JobType = Field(description=_TYPE)
    targets: list[str] = Field(
        min_length=1, max_length=MAX_TARGETS, fail_fast=True, description="What to look up."
    )
    name: Name | None = Field(None, description=_NAME)
    fields: list[str] | None = Field(
        None, min_length=1, max_length=500, description=f"Of the answers' fields, {_FIELDS}"
    )


class JobOfFile(Body):
    """A form whose `file` holds the targets."""

    type: JobType = Field(description=_TYPE)
    column: str | None = Field(
        None,
        max_length=LONGEST,
        description="The name of the column that has the targets, in any case; without it, one with a usual"
        " name, the only one, or the one in which most targets stand is taken.",
    )
    name: Name | None = Field(None, description=_NAME)
    fields: str | None = Field(None, description=f"Parted by commas, of the answers' fields, {_FIELDS}")


class GivenJob:
    """A requested job, whose rows are still to be read."""

    def __init__(self, body: JobOfTargets | JobOfFile, form: Form | None) -> None:
        self._body = body
        self._form = form
        fields = body.fields.split(",") if isinstance(body.fields, str) else body.fields
        self._fields = _normalise_fields(body.type, fields)

    async def open(self, services: Services, caller: Caller) -> tuple[NewJob, Upload]:
        """Return the job to accept, and its rows.

        Raises:
            BadCsv, PoolBusy, WorkLost: as `open_csv`.
        """
        body = self._body
        pool, account_id = services.pool, caller.account_id
        if isinstance(body, JobOfTargets):
            upload = open_targets(pool, account_id, body.type, body.targets)
        else:
            assert self._form is not None
            upload = await open_csv(pool, account_id, body.type, self._form.chunks(), body.column)
        asked = services.lookups.select_sources(body.type, self._fields)
        left_out = [source.spec.name for source in asked.left_out]
        price = price_of(body.type) if services.settings.charges else 0
        new = NewJob(body.type, body.name, self._fields, upload.header, price, left_out)
        return new, upload


async def _read_job(request: Request) -> AsyncGenerator[GivenJob]:
    """Read the body; the file of a form exists until the request has its answer."""
    assert isinstance(request, StrictRequest)
    if request.media_type == multipart.MEDIA_TYPE:
        async with reading(request) as form:
            # A form in a browser also sends fields that were left empty.
            filled = {name: text for name, text in form.fields.items() if text.strip()}
            yield GivenJob(validate_body(JobOfFile, filled, None), form)
        return
    raw = await request.raw()
    if request.media_type != "application/json":
        message = "Send a form with a file (multipart/form-data), or JSON (application/json)."
        raise Problem(415, "unsupported_media_type", message)
    yield GivenJob(validate_body(JobOfTargets, cast(dict[str, Any], parse_json(raw)), None), None)


Given = Annotated[GivenJob, Depends(_read_job)]


def _normalise_fields(type: JobType, fields: Sequence[str] | None) -> list[str] | None:
    """Return the names of fields, without spaces, blanks and repeats.

    Raises:
        Invalid: there is none, or an answer has no field of one of them.
    """
    if fields is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in fields if name.strip()))
    known = lookup_fields()[type]
    if not names or not known.issuperset(names):
        message = f"There is no such field; fields are: {', '.join(sorted(known))}."
        raise Invalid([FieldError("/fields", "unknown_field", message)])
    return names


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a body in which nothing is null, and unsent fields are absent."""
    schema = model.model_json_schema()
    for described in schema["properties"].values():
        arms = described.pop("anyOf", [{}])
        described.update(arms[0])
        described.pop("default", None)
    return schema


def request_body() -> dict[str, Any]:
    """Return the body for OpenAPI, because FastAPI does not see what a route reads by itself."""
    form = _schema(JobOfFile)
    form["properties"] |= {
        multipart.FILE: {
            "type": "string", "contentMediaType": "text/csv", "title": "File",
            "description": "A CSV file with a header: at most 10,000 rows, 200 columns and 20 MiB, in UTF-8.",
        }
    }  # fmt: skip
    form["required"] = [*form["required"], multipart.FILE]
    form["examples"] = [{"type": "ip", "file": "ip,note\n8.8.8.8,resolver\n"}]
    content = {
        "application/json": {"schema": _schema(JobOfTargets)},
        multipart.MEDIA_TYPE: {"schema": form, "encoding": {multipart.FILE: {"contentType": "text/csv"}}},
    }
    return {"requestBody": {"required": True, "content": content}}
