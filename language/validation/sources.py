"""Where expressions stand in a definition: what each reads, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from language import expressions, templates
from language.definition import field_expression
from language.expressions import Expression, ExpressionError, Reference
from language.findings import Finding

ITEM = "item"
"""The root of the scope that is there in a step with `for_each` alone."""
RESUME_URLS = "resume_urls"
"""The member of `run` that only webhook steps can read."""


class Source(NamedTuple):
    """An expression in a definition and where it stands.

    Attributes:
        expression: as it is compiled.
        secret: the name, if it is the `secrets.NAME` of a template; else None.
        is_field: whether it is the `field` of a lookup: names with dots between.
        offset: of the expression in the string that it stands in, in characters.
    """

    pointer: str
    expression: Expression
    secret: str | None = None
    is_field: bool = False
    offset: int = 0

    @property
    def references(self) -> tuple[Reference, ...]:
        """What it reads from the scope; a secret is not in there."""
        return () if self.secret else self.expression.references


def compiled(pointer: str, text: str, *, is_field: bool = False, key: str | None = None) -> Source | Finding:
    """The expression at a pointer, in a mapping under a key; what is wrong with it if it does not compile."""
    try:
        expression = field_expression(text) if is_field else expressions.compile(text)
    except ExpressionError as error:
        return Finding(pointer, error.code, (error if key is None else error.within(key)).message)
    return Source(pointer, expression, is_field=is_field, offset=len(text) - len(expression.text))


def in_template(pointer: str, value: Any) -> Iterator[Source | Finding]:
    """The expressions of the template at a pointer."""
    template, errors = templates.read_template(value)
    for error in errors:
        yield Finding(pointer + error.pointer, error.code, error.message)
    for placeholder in template.placeholders:
        place = pointer + placeholder.pointer
        yield Source(place, placeholder.expression, placeholder.secret, offset=placeholder.position)


def step_read(reference: Reference) -> str | None:
    """The step that a reference reads, or the root that is none."""
    return next(iter(reference.path), None) if reference.root == "steps" else reference.root


def reads_resume_url(reference: Reference) -> bool:
    """Say whether a reference reads URLs by which a run is resumed."""
    return reference.root == "run" and reference.path[:1] == (RESUME_URLS,)


def readable(sources: Iterable[Source | Finding]) -> Iterator[Source]:
    """Those that compile."""
    return (source for source in sources if isinstance(source, Source))
