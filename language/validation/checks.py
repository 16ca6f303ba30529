"""The checks across fields of a definition: references, order, branches, expressions, secrets.

All errors are found at once, each by JSON pointer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from language.branches import branches_of, needs_of
from language.definition import RESERVED_IDS, SCOPE_ROOTS, Definition
from language.expressions.references import IN_QUOTES, WHOLE_SCOPE, Reference
from language.expressions.times import moment_of
from language.expressions.values import describe_place
from language.fields import resolve_fields, trigger_field
from language.findings import Finding, describe_named, escape_name, missing_secret, suggestion
from language.steps import (
    MAX_DELAY_SECONDS,
    ConditionStep,
    DelayConfig,
    DelayStep,
    EmitStep,
    IteratingStep,
    LookupStep,
    RememberStep,
    Step,
    StepBase,
    TransformStep,
    WaitStep,
    WebhookStep,
    WorkflowStep,
)
from language.templates import SECRETS
from language.triggers import WebhookTrigger
from language.validation import trigger_checks
from language.validation.sources import (
    ITEM,
    Source,
    compile_source,
    in_template,
    readable,
    reads_resume_url,
    step_read,
)

FOR_EACH, IF = "for_each", "if"
MAX_EXPRESSIONS = 1000
MAX_EXPRESSION_CHARACTERS = 64 * 1024
"""The limit for steps and trigger together: a workflow task must compile them well within a second."""


class UnreadStep(StepBase):
    """A placeholder for an unreadable step: only its id is known, if that."""


Sources = list[list[Source | Finding]]
"""For each step its expressions; for one that does not compile, its error."""


def sources_of(definition: Definition) -> Sources:
    """Return the input of `errors_of` and `warnings_of`. Compiling is expensive, so it is done once."""
    steps = resolve_fields(definition.steps)
    return [list(_sources(step, f"/steps/{index}")) for index, step in enumerate(steps)]


def errors_of(definition: Definition, sources: Sources, secrets: Collection[str] | None) -> Iterator[Finding]:
    """Yield all errors of a definition.

    Args:
        definition: its steps may be UnreadSteps.
        sources: of the definition.
        secrets: the names of the account's secrets; None if unknown.
    """
    of_trigger = trigger_checks.sources_of(definition)
    every = [source for part in (*sources, of_trigger) for source in part]
    length = sum(len(source.expression.text) for source in readable(every))
    if len(every) > MAX_EXPRESSIONS or length > MAX_EXPRESSION_CHARACTERS:
        kibibytes = MAX_EXPRESSION_CHARACTERS // 1024
        message = f"At most {MAX_EXPRESSIONS} expressions with {kibibytes} Ki characters are allowed."
        yield Finding("/steps", "too_many_expressions", message)
        return
    needs = needs_of(definition)
    known: list[str] = []
    for index, step in enumerate(definition.steps):
        pointer = f"/steps/{index}"
        yield from _id_errors(step, pointer, known)
        yield from _needs_errors(step, pointer, known, needs, definition)
        yield from _on_items_errors(step, pointer)
        yield from _config_errors(step, pointer)
        for source in sources[index]:
            if isinstance(source, Finding):
                yield source
            elif source.secret is not None:
                yield from _secret_errors(step, source.pointer, source.secret, secrets)
            else:
                yield from _reference_errors(step, source, known, definition)
        known.append(step.id)
    yield from _branch_errors(definition)
    yield from trigger_checks.errors_of(definition, of_trigger, secrets)


def warnings_of(
    definition: Definition, sources: Sources, secrets: Collection[str] | None
) -> Iterator[Finding]:
    """Yield all doubts about a definition. Arguments as for `errors_of`."""
    needs = needs_of(definition)
    awaited: dict[str, set[str]] = {}
    for index, step in enumerate(definition.steps):
        awaited[step.id] = {*needs[step.id]}.union(*(awaited.get(need, ()) for need in needs[step.id]))
        early = awaited.keys() - awaited[step.id] - {step.id}
        if (name := trigger_field(step, needs.keys())) is not None:
            message = f"No other step is called {name}: this reads trigger.{name}."
            yield Finding(f"/steps/{index}/config/field", "field_of_trigger", message)
        for source in readable(sources[index]):
            yield from _doubts(source, awaited.keys() - {step.id})
            for name in dict.fromkeys(map(step_read, source.references)):
                if name in early:
                    message = (
                        f"This step does not wait for {name}, and so finds null: add {name} to its needs."
                    )
                    yield Finding(source.pointer, "not_awaited", message)
    for source in readable(trigger_checks.sources_of(definition)):
        yield from _doubts(source, needs.keys())
    if secrets is None:
        for pointer, name in _secrets_named(definition, sources):
            message = f"The account must have a {describe_named('secret', name)}."
            yield Finding(pointer, "unchecked_secret", message)


def _doubts(source: Source, steps: Collection[str]) -> Iterator[Finding]:
    """Yield the compared names in double quotes, except steps that cannot be named in another way."""
    compared = [r for r in source.references if r.compared and not ("-" in r.root and r.root in steps)]
    for position, doubt in (*source.expression.warnings, *((r.position, IN_QUOTES) for r in compared)):
        message = f"{describe_place(source.offset + position).capitalize()}: {doubt}"
        yield Finding(source.pointer, "doubtful_expression", message)


def _id_errors(step: StepBase, pointer: str, known: list[str]) -> Iterator[Finding]:
    if step.id in RESERVED_IDS:
        yield Finding(f"{pointer}/id", "reserved_id", f"{step.id} is a reserved word; choose another id.")
    if step.id and step.id in known:
        yield Finding(f"{pointer}/id", "duplicate_id", f"{step.id} is the id of an earlier step.")


def _needs_errors(
    step: StepBase, pointer: str, known: list[str], needs: dict[str, tuple[str, ...]], definition: Definition
) -> Iterator[Finding]:
    for position, need in enumerate(step.needs or ()):
        place = f"{pointer}/needs/{position}"
        if need in known:
            continue
        if need == step.id:
            yield Finding(place, "needs_itself", "A step cannot need itself.")
        elif step.id in _all_needs(need, needs):
            message = f"{step.id} needs {need}, which needs {step.id}: neither could ever begin."
            yield Finding(place, "cycle", message)
        else:
            yield _unknown_step(place, need, known, definition)


def _all_needs(step_id: str, needs: dict[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    waiting = [step_id]
    while waiting:
        for need in needs.get(waiting.pop(), ()):
            if need not in found:
                found.add(need)
                waiting.append(need)
    return found


def _unknown_step(
    pointer: str, name: str, known: Iterable[str], definition: Definition, hint: str = ""
) -> Finding:
    """Return the error for a step that cannot be named here, with `hint` or the nearest of `known`."""
    if any(step.id == name for step in definition.steps):
        return Finding(pointer, "later_step", f"{name} is not an earlier step; move it up or name another.")
    message = f"There is no {describe_named('step', name)}.{hint or suggestion(name, known)}"
    return Finding(pointer, "unknown_reference", message)


def _on_items_errors(step: StepBase, pointer: str) -> Iterator[Finding]:
    if not isinstance(step, IteratingStep) or step.on_items is None:
        return
    if step.for_each is None or step.on_error != "continue":
        message = "on_items needs for_each and on_error: continue; without these any item fails the step."
        yield Finding(f"{pointer}/on_items", "misplaced_on_items", message)


def _config_errors(step: StepBase, pointer: str) -> Iterator[Finding]:
    if isinstance(step, LookupStep) and (step.config.field is None) == (step.config.value is None):
        yield Finding(f"{pointer}/config", "field_or_value", "Give either field or value.")
    if isinstance(step, TransformStep) and (step.config.expression is None) == (step.config.mapping is None):
        yield Finding(f"{pointer}/config", "expression_or_mapping", "Give either expression or mapping.")
    if isinstance(step, RememberStep) and (step.config.key is None) == (step.config.keys is None):
        yield Finding(f"{pointer}/config", "key_or_keys", "Give either key or keys.")
    if isinstance(step, DelayStep):
        yield from _delay_errors(step.config, f"{pointer}/config")


def _delay_errors(config: DelayConfig, pointer: str) -> Iterator[Finding]:
    given, seconds = [*config.given_fields], config.constant_seconds
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "none is given"
        message = f"Give exactly one of seconds, minutes, hours, days, duration, until; {found}."
        yield Finding(pointer, "one_duration", message)
    elif config.template is not None:
        until = config.until
        if until is not None and "{{" not in until and moment_of(until) is None:
            message = "Must be a time with a zone, 2026-12-24T18:00:00Z, or a template that gives one."
            yield Finding(f"{pointer}/until", "bad_timestamp", message)
    elif seconds is None:
        message = "Must be a duration, such as 5m, 1h30m, 2d or PT5M, or a template that gives one."
        yield Finding(f"{pointer}/duration", "bad_duration", message)
    elif not 0 < seconds <= MAX_DELAY_SECONDS:
        message = "Must be more than 0." if seconds <= 0 else "At most 365 days."
        yield Finding(f"{pointer}/{given[0]}", "out_of_range", message)


def _sources(step: StepBase, pointer: str) -> Iterator[Source | Finding]:
    """Yield every expression of a step; for one that does not compile, its error."""
    config = f"{pointer}/config"
    if step.condition is not None:
        yield compile_source(f"{pointer}/{IF}", step.condition)
    if isinstance(step, IteratingStep) and step.for_each is not None:
        yield compile_source(f"{pointer}/{FOR_EACH}", step.for_each)
    match step:
        case LookupStep():
            if step.config.field is not None:
                yield compile_source(f"{config}/field", step.config.field, is_field=True)
            if step.config.value is not None:
                yield from in_template(f"{config}/value", step.config.value)
        case ConditionStep():
            yield compile_source(f"{config}/expression", step.config.expression)
        case TransformStep():
            if step.config.expression is not None:
                yield compile_source(f"{config}/expression", step.config.expression)
            for name, text in (step.config.mapping or {}).items():
                yield compile_source(f"{config}/mapping/{escape_name(name)}", text, key=name)
        case DelayStep():
            for name in ("duration", "until"):
                yield from in_template(f"{config}/{name}", getattr(step.config, name))
        case WebhookStep():
            yield from in_template(f"{config}/url", step.config.url)
            yield from in_template(f"{config}/headers", step.config.headers)
            yield from in_template(f"{config}/body", step.config.body)
        case WorkflowStep():
            yield from in_template(f"{config}/input", step.config.input)
        case RememberStep():
            yield from in_template(f"{config}/key", step.config.key)
            if step.config.keys is not None:
                yield compile_source(f"{config}/keys", step.config.keys)
        case EmitStep():
            yield from in_template(f"{config}/data", step.config.data)
        case WaitStep():
            yield from in_template(f"{config}/title", step.config.title)
            yield from in_template(f"{config}/message", step.config.message)
        case UnreadStep():
            pass
        case _:
            raise AssertionError(f"a step type without expressions: {step}")


def _secret_errors(
    step: StepBase, pointer: str, name: str, secrets: Collection[str] | None
) -> Iterator[Finding]:
    if not isinstance(step, WebhookStep):
        message = "Secrets can be used in the url, headers and body of webhook steps only."
        yield Finding(pointer, "secret_not_allowed", message)
    elif secrets is not None and name not in secrets:
        yield Finding(pointer, "unknown_secret", missing_secret(name, secrets))


def _reference_errors(
    step: StepBase, source: Source, known: list[str], definition: Definition
) -> Iterator[Finding]:
    in_items = isinstance(step, IteratingStep) and step.for_each is not None
    for reference in source.references:
        name = step_read(reference)
        # JMESPath reads a string in double quotes as a name: a compared one causes a warning.
        if reference.compared or name is None or name in known:
            continue
        if reads_resume_url(reference):
            yield from _resume_url_errors(step, source.pointer, reference.path[1:], definition)
        if reference.root == name in (*SCOPE_ROOTS, WHOLE_SCOPE):
            continue
        if name == reference.root == ITEM:
            if not in_items:
                message = "item is there only in a step with for_each."
                yield Finding(source.pointer, "item_outside_for_each", message)
            elif source.pointer.endswith(f"/{FOR_EACH}"):
                message = "for_each gives the items; it cannot read one."
                yield Finding(source.pointer, "item_outside_for_each", message)
            elif source.pointer.endswith(f"/{IF}"):
                message = "if is evaluated once, before there are items; filter them in for_each."
                yield Finding(source.pointer, "item_outside_for_each", message)
        elif name == reference.root == SECRETS:
            message = "An expression cannot read secrets; webhook steps can, as {{ secrets.NAME }}."
            yield Finding(source.pointer, "secret_not_allowed", message)
        elif name == step.id:
            yield Finding(source.pointer, "reads_itself", "A step cannot read its own output.")
        else:
            names = known if reference.root != name else [*known, *SCOPE_ROOTS, *([ITEM] if in_items else [])]
            yield _unknown_step(source.pointer, name, names, definition, _hint(source, reference))


def _resume_url_errors(
    step: StepBase, pointer: str, path: tuple[str, ...], definition: Definition
) -> Iterator[Finding]:
    """Yield an error if a resume URL is used where it would be shown, or if its step does not exist."""
    if not isinstance(step, WebhookStep):
        message = "Resume URLs can be used in the url, headers and body of webhook steps only."
        yield Finding(pointer, "resume_url_not_allowed", message)
        return
    waits = [step.id for step in definition.steps if isinstance(step, WaitStep | UnreadStep)]
    if path and path[0] not in waits:
        message = f"There is no {describe_named('wait step', path[0])}.{suggestion(path[0], waits)}"
        yield Finding(pointer, "unknown_reference", message)


def _hint(source: Source, reference: Reference) -> str:
    """Return a hint at another notation, if that was probably meant, or an empty text."""
    if source.is_field and "[" in reference.root:
        return " A field is names with dots between; for anything else use value: {{ item[0] }}."
    if reference.root == "steps" and reference.path[0] in (*SCOPE_ROOTS, ITEM):
        return f" steps has the steps only: write {reference.path[0]} without it."
    if reference.quoted and not reference.path and not source.is_field:
        return " A string is written in single quotes."
    return ""


def _branch_errors(definition: Definition) -> Iterator[Finding]:
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


class Reads(NamedTuple):
    """The references of each part of a step to its scope, without `item`, each once."""

    config: tuple[Reference, ...]
    for_each: tuple[Reference, ...]
    condition: tuple[Reference, ...]


def reads_of(step: Step) -> Reads:
    """Return the references of a step."""
    parts: dict[str, dict[Reference, None]] = {f"/{FOR_EACH}": {}, f"/{IF}": {}, "": {}}
    for source in readable(_sources(step, "")):
        part = parts.get(source.pointer, parts[""])
        part.update((reference, None) for reference in source.references if reference.root != ITEM)
    return Reads(tuple(parts[""]), tuple(parts[f"/{FOR_EACH}"]), tuple(parts[f"/{IF}"]))


def roots_of(references: Iterable[Reference]) -> tuple[str, ...]:
    """Return the names at the root of the scope that references read; `@` stands for all of them."""
    return tuple(dict.fromkeys(reference.root for reference in references))


def reads_request(definition: Definition) -> bool:
    """Return whether any expression reads the headers or the query of the triggering request."""
    roots = [r.root for source in readable(trigger_checks.sources_of(definition)) for r in source.references]
    roots += [reference.root for step in definition.steps for of in reads_of(step) for reference in of]
    return "request" in roots or WHOLE_SCOPE in roots


def reads_resume_urls(definition: Definition) -> bool:
    """Return whether any step reads the URLs by which its run is resumed."""
    return any(
        reads_resume_url(reference)
        for step in definition.steps
        for part in reads_of(step)
        for reference in part
    )


def secrets_used(definition: Definition) -> list[str]:
    """Return the names of all secrets in a definition, each once."""
    return list(dict.fromkeys(name for _, name in _secrets_named(definition, sources_of(definition))))


def _secrets_named(definition: Definition, sources: Sources) -> Iterator[tuple[str, str]]:
    for source in readable(source for of_step in sources for source in of_step):
        if source.secret is not None:
            yield source.pointer, source.secret
    trigger = definition.trigger
    if isinstance(trigger, WebhookTrigger) and trigger.signature is not None:
        yield "/trigger/signature/secret", trigger.signature.secret
