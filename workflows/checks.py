"""What no single field of a definition shows: references, order, branches, expressions.

Everything that is wrong is found at once, each by JSON pointer.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from workflows import expressions, templates
from workflows.definition import (
    MAX_DELAY_SECONDS,
    RESERVED_IDS,
    SCOPE_ROOTS,
    ConditionStep,
    Definition,
    DelayStep,
    IpLookupStep,
    Step,
    StepBase,
    TransformStep,
    WebhookStep,
    WebhookTrigger,
    branches_of,
    field_expression,
)
from workflows.expressions import ExpressionError, Reference
from workflows.references import WHOLE_SCOPE


class Finding(NamedTuple):
    """One thing wrong (or doubtful) in a definition, at a JSON pointer."""

    pointer: str
    code: str
    message: str


class Source(NamedTuple):
    """An expression in a definition and where it stands."""

    pointer: str
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]


def findings(definition: Definition) -> tuple[list[Finding], list[Finding]]:
    """All that is wrong with a definition, and all that is only doubtful: (errors, warnings)."""
    errors: list[Finding] = []
    warnings: list[Finding] = []
    known: list[str] = []
    for index, step in enumerate(definition.steps):
        pointer = f"/steps/{index}"
        errors += _id_findings(step, pointer, known)
        errors += _needs_findings(step, pointer, known, definition)
        errors += _config_findings(step, pointer)
        for source in _sources(step, pointer, errors):
            errors += _reference_findings(source, known, definition)
            warnings += [Finding(source.pointer, "doubtful_expression", text) for text in source.warnings]
        known.append(step.id)
    errors += _branch_findings(definition)
    errors += _trigger_findings(definition)
    return errors, warnings


def _id_findings(step: StepBase, pointer: str, known: list[str]) -> Iterator[Finding]:
    if step.id in RESERVED_IDS:
        yield Finding(f"{pointer}/id", "reserved_id", f"{step.id} is a reserved word; choose another id.")
    if step.id in known:
        yield Finding(f"{pointer}/id", "duplicate_id", f"{step.id} is the id of an earlier step.")


def _needs_findings(
    step: StepBase, pointer: str, known: list[str], definition: Definition
) -> Iterator[Finding]:
    for position, need in enumerate(step.needs or ()):
        if need not in known:
            yield _unknown_step(f"{pointer}/needs/{position}", need, known, definition)


def _unknown_step(pointer: str, name: str, known: list[str], definition: Definition) -> Finding:
    if any(step.id == name for step in definition.steps):
        return Finding(pointer, "later_step", f"{name} is not an earlier step; move it up or name another.")
    nearest = get_close_matches(name, [*known, "trigger"], n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return Finding(pointer, "unknown_reference", f"There is no step {name}.{hint}")


def _config_findings(step: StepBase, pointer: str) -> Iterator[Finding]:
    if isinstance(step, IpLookupStep) and (step.config.field is None) == (step.config.value is None):
        yield Finding(f"{pointer}/config", "field_or_value", "Give either field or value.")
    if isinstance(step, TransformStep) and (step.config.expression is None) == (step.config.mapping is None):
        yield Finding(f"{pointer}/config", "expression_or_mapping", "Give either expression or mapping.")
    if isinstance(step, DelayStep):
        if len(step.config.given) != 1:
            message = "Give one of seconds, minutes, hours, days, until."
            yield Finding(f"{pointer}/config", "one_duration", message)
        elif (step.config.duration or 0) > MAX_DELAY_SECONDS:
            unit = next(iter(step.config.given))
            yield Finding(f"{pointer}/config/{unit}", "out_of_range", "At most 365 days.")


def _sources(step: StepBase, pointer: str, errors: list[Finding]) -> Iterator[Source]:
    """Every expression of a step; those that do not compile go to `errors`."""
    config = f"{pointer}/config"
    match step:
        case IpLookupStep():
            if step.config.field is not None:
                yield from _compiled(f"{config}/field", step.config.field, errors, is_field=True)
            if step.config.value is not None:
                yield from _template(f"{config}/value", step.config.value, errors)
        case ConditionStep():
            yield from _compiled(f"{config}/expression", step.config.expression, errors)
        case TransformStep():
            if step.config.expression is not None:
                yield from _compiled(f"{config}/expression", step.config.expression, errors)
            for name, text in (step.config.mapping or {}).items():
                yield from _compiled(f"{config}/mapping/{_escaped(name)}", text, errors)
        case DelayStep():
            if step.config.until is not None:
                yield from _template(f"{config}/until", step.config.until, errors)
        case WebhookStep():
            yield from _template(f"{config}/url", step.config.url, errors)
            yield from _template(f"{config}/headers", step.config.headers, errors)
            yield from _template(f"{config}/body", step.config.body, errors)
        case _:
            raise AssertionError(f"a step type without expressions: {step}")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _compiled(pointer: str, text: str, errors: list[Finding], *, is_field: bool = False) -> Iterator[Source]:
    try:
        expression = field_expression(text) if is_field else expressions.compile(text)
    except ExpressionError as error:
        errors.append(Finding(pointer, error.code, error.message))
        return
    yield Source(pointer, expression.references, expression.warnings)


def _template(pointer: str, value: Any, errors: list[Finding]) -> Iterator[Source]:
    try:
        template = templates.compile_template(value)
    except ExpressionError as error:
        errors.append(Finding(pointer + error.pointer, error.code, error.message))
        return
    for placeholder in template.placeholders:
        place, expression = pointer + placeholder.pointer, placeholder.expression
        if placeholder.secret is None:
            yield Source(place, expression.references, expression.warnings)
        else:
            errors.append(Finding(place, "unknown_secret", f"There is no secret {placeholder.secret}."))


def _reference_findings(source: Source, known: list[str], definition: Definition) -> Iterator[Finding]:
    roots = {*known, *SCOPE_ROOTS, "secrets", WHOLE_SCOPE}
    for reference in source.references:
        # A string in double quotes is a name to JMESPath: one that is compared has its own warning.
        if reference.quoted and not reference.path and source.warnings:
            continue
        if reference.root not in roots:
            yield _unknown_step(source.pointer, reference.root, known, definition)
        elif reference.root == "steps" and reference.path and reference.path[0] not in known:
            yield _unknown_step(source.pointer, reference.path[0], known, definition)


def _branch_findings(definition: Definition) -> Iterator[Finding]:
    order = {step.id: index for index, step in enumerate(definition.steps)}
    taken: dict[str, str] = {}
    for branch in branches_of(definition):
        for position, member in enumerate(branch.members):
            pointer = f"{branch.pointer}/{position}"
            if member not in order:
                yield _unknown_step(pointer, member, list(order), definition)
            elif order[member] <= order[branch.step_id]:
                yield Finding(pointer, "earlier_step", f"{member} is not a later step.")
            elif member in taken:
                message = f"{member} is already on a branch of {taken[member]}."
                yield Finding(pointer, "two_branches", message)
            taken.setdefault(member, branch.step_id)


def _trigger_findings(definition: Definition) -> Iterator[Finding]:
    trigger = definition.trigger
    if isinstance(trigger, WebhookTrigger) and trigger.dedupe is not None:
        errors: list[Finding] = []
        for source in _compiled("/trigger/dedupe", trigger.dedupe, errors):
            for reference in source.references:
                if reference.root not in ("trigger", "request"):
                    yield Finding(
                        source.pointer, "unknown_reference", "dedupe can read only trigger and request."
                    )
        yield from errors


def roots_read(step: Step) -> tuple[str, ...]:
    """The names at the root of the scope that a step's expressions read; `@` stands for all of them."""
    return tuple(dict.fromkeys(r.root for source in _sources(step, "", []) for r in source.references))


def reads_request(definition: Definition) -> bool:
    """Whether any expression reads the headers or the query of the triggering request."""
    dedupe = getattr(definition.trigger, "dedupe", None)
    sources = list(_compiled("/trigger/dedupe", dedupe, [])) if dedupe else []
    roots = [r.root for source in sources for r in source.references]
    roots += [root for step in definition.steps for root in roots_read(step)]
    return "request" in roots or WHOLE_SCOPE in roots
