"""The check that a document is a workflow, with all errors at once, each by JSON pointer.

Creating, changing and validating over HTTP, and the command line, all use it. Callers pass further checks for
what this package must not import (JSON Schemas, calendars).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, cast, get_args

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from language import triggers
from language.definition import MAX_DEFINITION_BYTES, Definition, Status
from language.findings import Finding, meaning, path_of, pointer_of, suggestion, type_of
from language.steps import Step, StepBase
from language.validation import checks, doubts
from language.validation.reachability import unreachable_steps

MAX_FINDINGS = 100
"""The most errors, and the most warnings, of a report; the others appear after these are fixed."""

Check = Callable[[Definition], Iterable[Finding]]
_SCHEDULE = "/trigger/schedule"
_STEP: TypeAdapter[Step] = TypeAdapter(Step)


class Document(Definition):
    """A client's document: a definition, and its status."""

    status: Status = Field("active", description="Only an active workflow starts runs.")


class Report(NamedTuple):
    """The result of checking a document.

    Attributes:
        definition: of the document; None if there are errors.
        status: the requested status.
        errors: all errors.
        warnings: all doubts.
    """

    definition: Definition | None
    status: Status
    errors: list[Finding]
    warnings: list[Finding]


def validate(
    document: Any,
    secrets: Collection[str] | None,
    *,
    answers: doubts.Answers | None = None,
    ignored: Collection[str] = (),
    further: Sequence[Check] = (),
) -> Report:
    """Read and check a document.

    Args:
        document: JSON, of any shape.
        secrets: the names of the account's secrets; None if unknown, so that names in the document only cause
            warnings.
        answers: the shapes of lookups' answers; without them any fields are allowed.
        ignored: fields that a client may send back without effect.
        further: more checks; they receive the readable part, and defaults for the rest.
    """
    if not isinstance(document, dict):
        return _report_refusal(Finding("", "wrong_type", "A workflow is an object."))
    given = {name: value for name, value in cast(dict[str, Any], document).items() if name not in ignored}
    try:
        size = len(orjson.dumps(_without_status(given)))
    except orjson.JSONEncodeError:
        return _report_refusal(Finding("", "too_deep", "This is nested too deep."))
    if size > MAX_DEFINITION_BYTES:
        message = f"A workflow may have {MAX_DEFINITION_BYTES // 1024} KiB."
        return _report_refusal(Finding("", "too_large", message))
    unreadable: list[Finding] = []
    try:
        read = Document.model_validate(given)
    except ValidationError as error:
        lines = error.errors(include_url=False, include_input=False)
        unreadable = _unreadable(lines, given)
        read = _readable(given, {line["loc"][:2] for line in lines})
    sources = checks.sources_of(read)
    found = chain(
        unreadable,
        checks.errors_of(read, sources, secrets),
        unreachable_steps(read),
        triggers.column_errors(read.trigger),
        *(_locate_findings(check(read), given) for check in further),
    )
    errors = list(islice(found, MAX_FINDINGS))
    doubtful = chain(
        checks.warnings_of(read, sources, secrets), doubts.doubts_of(read, sources, answers or {})
    )
    warnings = list(islice(doubtful, MAX_FINDINGS))
    definition = None if errors else Definition.model_validate(_without_status(given))
    return Report(definition, read.status, errors, warnings)


def _report_refusal(finding: Finding) -> Report:
    return Report(None, "active", [finding], [])


def _without_status(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "status"}


def _locate_findings(found: Iterable[Finding], given: dict[str, Any]) -> Iterator[Finding]:
    """Yield the findings with their places in the document: a bare cron is read as an object, but is none."""
    trigger = given.get("trigger")
    bare = isinstance(trigger, dict) and isinstance(cast(dict[str, Any], trigger).get("schedule"), str)
    for finding in found:
        within = finding.pointer.startswith(f"{_SCHEDULE}/")
        yield finding._replace(pointer=_SCHEDULE) if bare and within else finding


def _readable(given: dict[str, Any], broken: set[tuple[int | str, ...]]) -> Document:
    """Return the checkable part of a document with errors at these places: of a broken step only the id."""
    names = {"steps", *(name for name, *_ in broken)}
    fields = {name: value for name, value in given.items() if name not in names}
    document = Document.model_validate({"name": "_"} | fields)
    if "steps" not in given or ("steps",) in broken:
        return document
    steps = [
        _unread(raw) if ("steps", index) in broken else _STEP.validate_python(raw)
        for index, raw in enumerate(given["steps"])
    ]
    return document.model_copy(update={"steps": steps})


def _unread(raw: Any) -> StepBase:
    step_id = cast(dict[str, Any], raw).get("id") if isinstance(raw, dict) else None
    return checks.UnreadStep.model_construct(id=step_id if isinstance(step_id, str) else "", needs=None)


def _unreadable(lines: Sequence[Any], given: dict[str, Any]) -> list[Finding]:
    """Return Pydantic's errors as findings: one a place, without those for other members of a union."""
    findings: dict[str, Finding] = {}
    for line in lines[: 2 * MAX_FINDINGS]:
        one = _finding(line, given)
        other = findings.setdefault(one.pointer, one)
        if other.message != one.message:
            # First the error of the union member with the right type.
            if other.code != "wrong_type":
                one, other = other, one
            either = f"{one.message.removesuffix('.')}, or: {other.message}"
            findings[one.pointer] = one._replace(message=either)
    deeper = {pointer.rpartition("/")[0] for pointer in findings}
    return [finding for pointer, finding in findings.items() if pointer not in deeper]


def _finding(line: Any, given: dict[str, Any]) -> Finding:
    kind: str = line["type"]
    context: dict[str, Any] = line.get("ctx") or {}
    path = path_of(line["loc"], given, kind)
    code, message = meaning(kind, context)
    if kind == "extra_forbidden":
        names = _names_at(path[:-1], given)
        message += suggestion(str(path[-1]), names) or f" Fields are: {', '.join(names)}."
    elif kind == "union_tag_not_found":
        path, message = [*path, "type"], "This field is required."
    elif kind == "union_tag_invalid":
        expected: str = context["expected_tags"]
        tags = [tag.strip(" '") for tag in expected.split(",")]
        path, message = [*path, "type"], f"There is no such type.{suggestion(context['tag'], tags)}"
        if not message.endswith("?"):
            message += f" Types are: {', '.join(tags)}."
    return Finding(pointer_of(path), code, message)


def _names_at(path: list[int | str], value: Any) -> list[str]:
    """Return the possible fields of the object at a path."""
    models: list[type[BaseModel]] = [Document]
    for part in path:
        value = value[part]
        if isinstance(part, str):
            fields = (
                field
                for model in models
                for name, field in model.model_fields.items()
                if part == (field.alias or name)
            )
            models = [arm for field in fields for arm in _models(field.annotation)]
        tag = type_of(value)
        if len(models) > 1 and tag is not None:
            models = [model for model in models if tag in get_args(model.model_fields["type"].annotation)]
    names = (field.alias or name for model in models for name, field in model.model_fields.items())
    return list(dict.fromkeys(names))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
