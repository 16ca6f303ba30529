"""Validation of a document as a workflow of an account: the language's own checks and further ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import orjson

from language.definition import Definition, Status
from language.findings import Finding, escape_name, suggestion
from language.steps import LookupStep, WebhookStep
from language.templates import read_template
from language.validation import definition as validation
from language.validation.checks import reads_request, reads_resume_urls, secrets_used
from language.validation.definition import Document, Report
from language.validation.doubts import Answers
from models.inputs import inputs
from models.inputs.input_schemas import DRAFT
from models.schedules import schedules
from outbound.guard import Networks, check_header, check_url

READ_ONLY = frozenset({
    "id", "version", "webhook_url", "created_at", "updated_at", "last_run_at", "runs_total", "next_run_at",
    "next_runs", "warnings",
})  # fmt: skip
"""Fields of a workflow that a client may send back without effect."""

LookupFields = Mapping[str, Collection[str]]
"""Kind of lookup → the dotted fields and the blocks of its answer."""

# Stands for a template in a URL: no request body contains it.
_GIVEN = "\0"


@dataclass(frozen=True)
class Rules:
    """The data beside the document by which it is decided whether the document may be saved.

    Attributes:
        networks: private networks that webhook steps may reach.
        may_look_up: whether the caller may do lookups.
        lookup_fields: the names that lookup steps may have in `fields`.
        answers: the known shapes of the answers of lookups.
    """

    networks: Networks
    may_look_up: bool
    lookup_fields: LookupFields
    answers: Answers


def validate(
    document: Any,
    secret_names: Collection[str] | None,
    networks: Networks | None = None,
    lookup_fields: LookupFields | None = None,
    answers: Answers | None = None,
) -> Report:
    """Return all errors and warnings of a document at once.

    Args:
        document: JSON, of any shape.
        secret_names: those of the account; None if they are unknown, so that unknown names are only warnings.
        networks: private networks that webhook steps may reach; None if they are unknown.
        lookup_fields: the names that lookup steps may have in `fields`; other kinds are not checked.
        answers: the known shapes of the answers of lookups; other kinds are not checked.
    """
    further = (
        schedules.errors_of,
        inputs.errors_of,
        partial(_url_errors, networks=networks),
        _header_errors,
        partial(_field_errors, known=lookup_fields or {}),
    )
    return validation.validate(document, secret_names, answers=answers, ignored=READ_ONLY, further=further)


def validate_text(
    text: bytes, lookup_fields: LookupFields | None = None, answers: Answers | None = None
) -> Report:
    """Validate the JSON text of a file, for an unknown account, as `validate` does."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        message = f"This is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        return Report(None, "draft", [Finding("", "invalid_json", message)], [])
    return validate(document, None, lookup_fields=lookup_fields, answers=answers)


def _url_errors(definition: Definition, networks: Networks | None) -> Iterator[Finding]:
    """Find the URLs of webhook steps that can never be called, as far as they contain no templates."""
    for index, step in enumerate(definition.steps):
        if isinstance(step, WebhookStep) and (url := _written_out(step.config.url)) is not None:
            refusal = check_url(url, networks or ())
            if refusal is not None and (networks is not None or refusal.code != "forbidden_address"):
                yield Finding(f"/steps/{index}/config/url", refusal.code, refusal.message)


def _header_errors(definition: Definition) -> Iterator[Finding]:
    """Find the headers of webhook steps that a request must not set. Header names contain no templates."""
    for index, step in enumerate(definition.steps):
        for name in step.config.headers if isinstance(step, WebhookStep) else ():
            if refusal := check_header(name):
                place = f"/steps/{index}/config/headers/{escape_name(name)}"
                yield Finding(place, refusal.code, refusal.message)


def _written_out(url: str) -> str | None:
    """Replace the templates of a URL with other text; None if they make up the scheme or the whole URL."""
    template, errors = read_template(url)
    if errors or url.startswith("{{"):
        return None
    text, at = "", 0
    for placeholder in template.placeholders:
        text += url[at : placeholder.position - 2] + _GIVEN
        at = placeholder.position + len(placeholder.expression.text) + 2
    scheme, separator, rest = (text + url[at:]).partition("://")
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    if _GIVEN in scheme and separator:
        return None
    if _GIVEN in host:
        rest = rest.replace(host, "example.com", 1)
    return (scheme + separator + rest).replace(_GIVEN, "x")


def _field_errors(definition: Definition, known: LookupFields) -> Iterator[Finding]:
    """Find the `fields` of lookup steps that no answer contains."""
    for index, step in enumerate(definition.steps):
        names = known.get(step.kind) if isinstance(step, LookupStep) else None
        if isinstance(step, LookupStep) and names is not None:
            for position, name in enumerate(step.config.fields or ()):
                if name not in names:
                    blocks = ", ".join(sorted(name for name in names if "." not in name))
                    hint = suggestion(name, names) or f" There are: {blocks}."
                    place = f"/steps/{index}/config/fields/{position}"
                    yield Finding(place, "unknown_field", f"The answer has no such field.{hint}")


@dataclass(frozen=True)
class DataReads:
    """The data other than the event that the expressions of a definition read.

    Attributes:
        secrets: the names of the secrets, each once.
        request: whether they read the headers or the query of the triggering request.
        resume_urls: whether they read the URLs by which a run is resumed.
    """

    secrets: list[str]
    request: bool
    resume_urls: bool


def find_data_reads(definition: Definition) -> DataReads:
    """Find the data that the expressions of a definition read. Many expressions take most of a second."""
    return DataReads(secrets_used(definition), reads_request(definition), reads_resume_urls(definition))


@dataclass(frozen=True)
class CheckedDefinition:
    """A document that can be saved, and what its definition reads."""

    definition: Definition
    status: Status
    readings: DataReads
    warnings: Sequence[Finding] = ()


@cache
def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of workflows, the same as docs/workflow.schema.json."""
    schema = Document.model_json_schema()
    return {"$schema": DRAFT, **schema, "title": "vedette workflow"}
