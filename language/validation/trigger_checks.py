"""The checks across fields of a webhook trigger: its `dedupe`, `respond` and secret."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from language import responding
from language.definition import SCOPE_ROOTS, Definition
from language.expressions import WHOLE_SCOPE
from language.findings import Finding, describe_named, missing_secret, suggestion
from language.templates import SECRETS
from language.triggers import WebhookTrigger
from language.validation.sources import ITEM, Source, compile_source, in_template, reads_resume_url, step_read

_DEDUPE, _RESPOND = "/trigger/dedupe", "/trigger/respond"


def sources_of(definition: Definition) -> list[Source | Finding]:
    """Return every expression of the trigger; for one that does not compile, its error."""
    trigger = definition.trigger
    if not isinstance(trigger, WebhookTrigger):
        return []
    found = [compile_source(_DEDUPE, trigger.dedupe)] if trigger.dedupe is not None else []
    if trigger.respond is not None:
        for name in ("status", "headers", "body"):
            found.extend(in_template(f"{_RESPOND}/{name}", getattr(trigger.respond, name)))
    return found


def errors_of(
    definition: Definition, sources: Iterable[Source | Finding], secrets: Collection[str] | None
) -> Iterator[Finding]:
    """Yield all errors in the trigger of a definition.

    Args:
        definition: the definition.
        sources: of the trigger.
        secrets: the names of the account's secrets; None if unknown.
    """
    trigger = definition.trigger
    if not isinstance(trigger, WebhookTrigger):
        return
    for source in sources:
        if isinstance(source, Finding):
            yield source
        elif source.pointer == _DEDUPE:
            yield from _dedupe_errors(trigger, source)
        else:
            yield from _respond_errors(definition, source)
    if trigger.respond is not None:
        yield from responding.errors_of(trigger.respond, _RESPOND)
    if trigger.signature is not None and secrets is not None and trigger.signature.secret not in secrets:
        name = trigger.signature.secret
        yield Finding("/trigger/signature/secret", "unknown_secret", missing_secret(name, secrets))


def _dedupe_errors(trigger: WebhookTrigger, source: Source) -> Iterator[Finding]:
    roots = {reference.root for reference in source.references if not reference.compared}
    if roots - {"trigger", "request"}:
        message = "dedupe can read only trigger and request."
        yield Finding(source.pointer, "unknown_reference", message)
    if "request" in roots and trigger.signature is not None:
        message = "Headers and query are not signed: who sends a request again can change them."
        yield Finding(source.pointer, "unsigned_reference", message)


def _respond_errors(definition: Definition, source: Source) -> Iterator[Finding]:
    if source.secret is not None:
        message = "What respond says goes to whoever has the ingest URL: no secrets can be in it."
        yield Finding(source.pointer, "secret_not_allowed", message)
    ids = [step.id for step in definition.steps]
    for reference in source.references:
        if reads_resume_url(reference):
            message = "Resume URLs can be used in the url, headers and body of webhook steps only."
            yield Finding(source.pointer, "resume_url_not_allowed", message)
        name = step_read(reference)
        if reference.compared or name is None or name in ids:
            continue
        if reference.root == name in (*SCOPE_ROOTS, WHOLE_SCOPE):
            continue
        if name == reference.root == ITEM:
            message = "item is there only in a step with for_each."
            yield Finding(source.pointer, "item_outside_for_each", message)
        elif name == reference.root == SECRETS:
            message = "An expression cannot read secrets."
            yield Finding(source.pointer, "secret_not_allowed", message)
        else:
            message = f"There is no {describe_named('step', name)}.{suggestion(name, [*ids, *SCOPE_ROOTS])}"
            yield Finding(source.pointer, "unknown_reference", message)
