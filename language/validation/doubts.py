"""Expressions that can be evaluated, but hardly as their author intended.

The shapes of lookups' answers, and of other steps' outputs, are known in advance. A missing name evaluates to
null, which is no error at run time, so it can only be detected here. And null differs from every value, so
`country != 'DE'` is true if the country is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from language.definition import Definition
from language.expressions import parser
from language.expressions.tracing import EACH, Doubt, Place, trace
from language.expressions.values import describe_place
from language.findings import Finding, escape_name, near
from language.shapes import ANYTHING, Shape
from language.steps import IteratingStep, LookupStep, RememberStep, StepBase, TransformStep
from language.validation.checks import FOR_EACH, Sources
from language.validation.sources import ITEM, Source

Answers = Mapping[str, Shape]
"""Kind of lookup → the shape of its answers."""

_MOST_NAMES = 20
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"\[(?:\*|-?[0-9]{1,9})\]")
_STEPS = "steps"
_GIVEN = Shape(False)
_OUTPUTS = {
    "webhook": Shape(False, {"status": _GIVEN, "headers": _GIVEN, "body": ANYTHING}),
    "condition": Shape(False, {"result": _GIVEN}),
    "delay": Shape(False, {"until": _GIVEN}),
    "wait": Shape(False, {"resumed": _GIVEN, "body": ANYTHING, "at": ANYTHING}),
    "remember": Shape(False, {"seen": _GIVEN, "first_at": _GIVEN, "count": _GIVEN}),
    "emit": Shape(False, {"event_id": ANYTHING, "webhooks": _GIVEN}),
}
_OF_KEYS = Shape(False, {"new": _GIVEN, "known": _GIVEN})
# The mark of an answer that a dry run made up, and of a failed item among others that continue.
_MADE_UP, _FAILED = {"sample": ANYTHING}, {"error": ANYTHING}


def doubts_of(definition: Definition, sources: Sources, answers: Answers) -> Iterator[Finding]:
    """Yield findings for missing fields (`unknown_output_field`), and null used as a value (`null_trap`).

    Args:
        definition: its steps may be UnreadSteps.
        sources: of the definition.
        answers: the shapes of lookups' answers; other kinds are unknown.
    """
    # Names that are not listed here are unknown and never null: `run`, `workflow`.
    scope = {"trigger": _GIVEN, "request": _GIVEN, _STEPS: Shape(False, {})}
    for index, step in enumerate(definition.steps):
        pointer, item = f"/steps/{index}", _GIVEN
        shapes: dict[str, Shape] = {}
        for source in sources[index]:
            if isinstance(source, Finding) or source.secret is not None:
                continue
            place = source.pointer.removeprefix(pointer)
            root = parser.parse(source.expression.text).root
            is_output = isinstance(step, TransformStep) and place.startswith("/config/")
            shapes[place], doubts = trace(root, scope | {ITEM: item}, is_output=is_output)
            if place == f"/{FOR_EACH}":
                item = (shapes[place].items or ANYTHING)._replace(nullable=False)
            for doubt in doubts:
                # A missing step is an error, not a doubt.
                if doubt.place[:-1] != (_STEPS,):
                    yield _finding(source, doubt)
        scope[step.id] = output = _output(step, answers, shapes)
        ended = Shape(False, {"status": _GIVEN, "output": output._replace(nullable=True), "error": ANYTHING})
        scope[_STEPS] = Shape(False, {**(scope[_STEPS].fields or {}), step.id: ended})


def _output(step: StepBase, answers: Answers, shapes: Mapping[str, Shape]) -> Shape:
    """Return the shape of a step's output, given the shapes of its expressions by their places in it."""
    shape = _OUTPUTS.get(getattr(step, "type", ""), ANYTHING)
    if isinstance(step, RememberStep) and step.config.keys is not None:
        shape = _OF_KEYS
    if isinstance(step, LookupStep) and step.kind in answers:
        shape = answers[step.kind]
        shape = shape._replace(fields={**(shape.fields or {}), **_MADE_UP})
    elif isinstance(step, TransformStep) and step.config.mapping is not None:
        fields = {
            name: shapes.get(f"/config/mapping/{escape_name(name)}", ANYTHING) for name in step.config.mapping
        }
        shape = Shape(False, fields)
    elif isinstance(step, TransformStep):
        shape = shapes.get("/config/expression", ANYTHING)
    if not isinstance(step, IteratingStep) or step.for_each is None:
        return shape
    if step.on_error == "continue" and shape.fields is not None:
        shape = shape._replace(fields={**shape.fields, **_FAILED})
    return Shape(False, items=shape)


def _finding(source: Source, doubt: Doubt) -> Finding:
    place = describe_place(source.offset + doubt.position).capitalize()
    if doubt.kind in ("unequal", "order"):
        value = _write_place(doubt.place)
        if doubt.kind == "unequal":
            told = f"is true then: write {value} != null && …, or {value} == null || … if that is meant."
        else:
            told = f"gives null then: write {value} != null && …."
        return Finding(source.pointer, "null_trap", f"{place}: {value} may be null, and this {told}")
    return Finding(source.pointer, "unknown_output_field", f"{place}: {_unknown(doubt)}")


def _unknown(doubt: Doubt) -> str:
    *before, name = doubt.place
    holder = _write_place(tuple(before)) if before else "this"
    if doubt.kind == "of_array":
        return (
            f"{holder} is an array: write {holder}[0].{_quote_name(name)} or {holder}[*].{_quote_name(name)}."
        )
    if doubt.kind == "of_object":
        return f"{holder} is an object, which has no elements."
    return (
        f"{holder} has no {'field ' + name if _NAME.fullmatch(name) else 'such field'}.{_meant(doubt, name)}"
    )


def _meant(doubt: Doubt, name: str) -> str:
    """Return a hint: the only nested field of this name; else similar names; else all names."""
    fields = [one for one in doubt.shape.fields or () if _NAME.fullmatch(one)]
    deeper = [".".join(map(_quote_name, path)) for path in doubt.shape.paths() if path[-1] == name]
    meant = deeper if len(deeper) == 1 else [_quote_name(one) for one in near(name, fields)]
    if meant:
        return f" Did you mean {' or '.join(meant)}?"
    more = ", …" if len(fields) > _MOST_NAMES else ""
    return f" There are: {', '.join(fields[:_MOST_NAMES])}{more}." if fields else ""


def _write_place(place: Place) -> str:
    """Return a place in the notation of expressions: within an element relative to it, without data names."""
    if EACH in place[:-1]:
        place = place[len(place) - place[::-1].index(EACH) :]
    if not all(_NAME.fullmatch(name) or _ELEMENT.fullmatch(name) for name in place):
        return "the value"
    parts = (name if _ELEMENT.fullmatch(name) else f".{_quote_name(name)}" for name in place)
    return "".join(parts).removeprefix(".")


def _quote_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else f'"{name}"'
