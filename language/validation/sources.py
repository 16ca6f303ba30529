"""Where expressions stand in a definition: what each reads, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from language import expressions, templates
from language.definition import field_expression
from language.expressions import ExpressionError, Reference
from language.validation.findings import Finding

ITEM = "item"
"""The root of the scope that is there in a step with `for_each` alone."""
RESUME_URLS = "resume_urls"
"""The member of `run` that only webhook steps can read."""


class Source(NamedTuple):
    """An expression in a definition and where it stands.

    Attributes:
        text: the expression.
        secret: the name, if it is the `secrets.NAME` of a template; else None.
        is_field: whether it is the `field` of a lookup: names with dots between.
        offset: of the expression in the string that it stands in, in characters.
    """

    pointer: str
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    text: str
    secret: str | None = None
    is_field: bool = False
    offset: int = 0


def compiled(pointer: str, text: str, *, is_field: bool = False, key: str | None = None) -> Source | Finding:
    """The expression at a pointer, in a mapping under a key; what is wrong with it if it does not compile."""
    try:
        expression = field_expression(text) if is_field else expressions.compile(text)
    except ExpressionError as error:
        return Finding(pointer, error.code, (error if key is None else error.within(key)).message)
    offset = len(text) - len(expression.text)
    return Source(
        pointer,
        expression.references,
        expression.warnings,
        expression.text,
        is_field=is_field,
        offset=offset,
    )


def in_template(pointer: str, value: Any) -> Iterator[Source | Finding]:
    """The expressions of the template at a pointer."""
    template, errors = templates.read_template(value)
    for error in errors:
        yield Finding(pointer + error.pointer, error.code, error.message)
    for placeholder in template.placeholders:
        expression = placeholder.expression
        references = () if placeholder.secret else expression.references
        place, at = pointer + placeholder.pointer, placeholder.position
        yield Source(place, references, expression.warnings, expression.text, placeholder.secret, offset=at)


def step_read(reference: Reference) -> str | None:
    """The step that a reference reads, or the root that is none."""
    return next(iter(reference.path), None) if reference.root == "steps" else reference.root


def readable(sources: Iterable[Source | Finding]) -> Iterator[Source]:
    """Those that compile."""
    return (source for source in sources if isinstance(source, Source))
