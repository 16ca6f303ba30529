"""Whether a document is a workflow that an account may save: the language's own checks and the others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from database import Connection
from guard import Networks, check_url
from models import inputs, schedules, secrets
from models.errors import FieldError, Forbidden, Invalid
from models.input_schemas import DRAFT
from workflows import validation
from workflows.definition import Definition, LookupStep, Status, WebhookStep
from workflows.findings import Finding
from workflows.validation import Document, Report

READ_ONLY = frozenset(
    {"id", "version", "webhook_url", "created_at", "updated_at", "last_run_at", "runs_total", "warnings"}
)
"""Fields of a workflow that a client may send back without effect."""


@dataclass(frozen=True)
class Rules:
    """What decides whether a document may be saved, beside itself.

    Attributes:
        networks: private ones that webhook steps may reach.
        may_look_up: whether who saves it may do lookups.
    """

    networks: Networks
    may_look_up: bool


def validate(document: Any, secret_names: Collection[str] | None, networks: Networks | None = None) -> Report:
    """Everything that is wrong with a document, at once.

    Args:
        document: JSON, of any shape.
        secret_names: of the account; None where they are not known, so that they are only warned of.
        networks: private ones that webhook steps may reach; None where that is not known.
    """

    def addresses(definition: Definition) -> Iterator[Finding]:
        return _address_errors(definition, networks) if networks is not None else iter(())

    further = (schedules.errors_of, inputs.errors_of, addresses)
    return validation.validate(document, secret_names, ignored=READ_ONLY, further=further)


def validate_text(text: bytes) -> Report:
    """The same for the JSON of a file, of an account that is not known."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        message = f"This is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        return Report(None, "draft", [Finding("", "invalid_json", message)], [])
    return validate(document, None)


def _address_errors(definition: Definition, networks: Networks) -> Iterator[Finding]:
    """The URLs of webhook steps that can never be called, as far as their hosts are written out."""
    for index, step in enumerate(definition.steps):
        if not isinstance(step, WebhookStep):
            continue
        written, template, _ = step.config.url.partition("{{")
        if template and "/" not in written.partition("://")[2]:
            continue
        refusal = check_url(written, networks)
        if refusal is not None and refusal.code == "forbidden_address":
            yield Finding(f"/steps/{index}/config/url", refusal.code, refusal.message)


async def report(connection: Connection, account_id: UUID, document: Any, networks: Networks) -> Report:
    """The same for a document of an account; a large one takes a while, during which others are served."""
    names = await secrets.names(connection, account_id)
    return await asyncio.to_thread(validate, document, names, networks)


@dataclass(frozen=True)
class Checked:
    """A document that can be saved."""

    definition: Definition
    status: Status
    warnings: list[Finding]


async def check(connection: Connection, account_id: UUID, document: Any, rules: Rules) -> Checked:
    """The definition in a document, if it can be saved.

    Raises:
        Invalid: naming everything that is wrong with it.
        Forbidden: if it has lookup steps, and who saves it may not look things up.
    """
    found = await report(connection, account_id, document, rules.networks)
    if found.definition is None:
        raise Invalid([FieldError(*finding) for finding in found.errors])
    if not rules.may_look_up and any(isinstance(step, LookupStep) for step in found.definition.steps):
        raise Forbidden("insufficient_scope", "To save lookup steps the key needs the scope lookups too.")
    return Checked(found.definition, found.status, found.warnings)


@cache
def json_schema() -> dict[str, Any]:
    """The JSON Schema of workflows, as docs/workflow.schema.json has it."""
    schema = Document.model_json_schema()
    return {"$schema": DRAFT, **schema, "title": "vedette workflow"}
