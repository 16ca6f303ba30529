"""The expressions of a definition: their references, or their errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from language import expressions, templates
from language.expressions import Expression, ExpressionError, Reference
from language.findings import Finding
from language.steps import field_expression

ITEM = "item"
"""The root of the scope that exists only in a step with `for_each`."""
RESUME_URLS = "resume_urls"
"""The member of `run` that only webhook steps can read."""


class Source(NamedTuple):
    """An expression in a definition and its place.

    Attributes:
        expression: in its compiled form.
        secret: the name, if it is the `secrets.NAME` of a template; else None.
        is_field: whether it is the `field` of a lookup: names separated by dots.
        offset: of the expression in its string, in characters.
    """

    pointer: str
    expression: Expression
    secret: str | None = None
    is_field: bool = False
    offset: int = 0

    @property
    def references(self) -> tuple[Reference, ...]:
        """The parts of the scope that it reads; a secret is not among them."""
        return () if self.secret else self.expression.references


def compile_source(
    pointer: str, text: str, *, is_field: bool = False, key: str | None = None
) -> Source | Finding:
    """Return the compiled expression at a pointer, in a mapping under a key; or its error."""
    try:
        expression = field_expression(text) if is_field else expressions.compile(text)
    except ExpressionError as error:
        return Finding(pointer, error.code, (error if key is None else error.add_key(key)).message)
    return Source(pointer, expression, is_field=is_field, offset=len(text) - len(expression.text))


def in_template(pointer: str, value: Any) -> Iterator[Source | Finding]:
    """Yield the expressions of the template at a pointer."""
    template, errors = templates.read_template(value)
    for error in errors:
        yield Finding(pointer + error.pointer, error.code, error.message)
    for placeholder in template.placeholders:
        place = pointer + placeholder.pointer
        yield Source(place, placeholder.expression, placeholder.secret, offset=placeholder.position)


def step_read(reference: Reference) -> str | None:
    """Return the step that a reference reads, or another root."""
    return next(iter(reference.path), None) if reference.root == "steps" else reference.root


def reads_resume_url(reference: Reference) -> bool:
    """Return whether a reference reads URLs by which a run is resumed."""
    return reference.root == "run" and reference.path[:1] == (RESUME_URLS,)


def readable(sources: Iterable[Source | Finding]) -> Iterator[Source]:
    """Yield the sources that compile."""
    return (source for source in sources if isinstance(source, Source))
