"""Steps that need no outside data: conditions, transforms, and the items that a step iterates over.

The interpreter evaluates them within the workflow, activities where the data is stored, a dry run anywhere,
all with these functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from language import expressions, templates
from language.expressions import JSON, Budget, ExpressionError
from language.expressions.values import MAX_NODES, compact_json
from language.records import ItemTally, StepError
from language.steps import (
    MAX_ITEMS,
    ConditionStep,
    DelayConfig,
    EmitConfig,
    IteratingStep,
    LookupConfig,
    RememberConfig,
    Step,
    TransformStep,
    WaitConfig,
    WorkflowConfig,
    field_expression,
)

ALL_ITEMS_NODES = 10 * MAX_NODES
"""The node budget that all items of a `for_each` share, where there is time for it."""

MAX_KEY_LENGTH = 512
"""The most characters of a remembered key."""
MAX_ALERT_BYTES = 64 * 1024
"""The most bytes of the data of an alert, as JSON."""

MAX_TITLE_LENGTH, MAX_MESSAGE_LENGTH = 200, 10_000
"""The most characters shown of a waiting step's title and message; longer ones are cut, and end in `…`."""
# A NUL as JSON writes it, without a backslash before it.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# The limit on a shown value that a step has read, in nodes and characters; the full value is stored
# elsewhere.
_SHOWN = 2000
_SHOWN_ITEMS = 20_000

Scope = Mapping[str, JSON]


@dataclass
class Seen:
    """The input of a step, for viewers of the run: the values that it reads, by name.

    With `for_each` it is the items. Large values are replaced by a description.

    Attributes:
        items: of a transform with `for_each`, the ends of its items.
    """

    value: JSON = None
    items: ItemTally | None = None


def budget_of(step: Step) -> Budget:
    """Return the budget of a step: the items of a `for_each` share ten times the nodes of one."""
    return Budget(nodes=ALL_ITEMS_NODES) if isinstance(step, IteratingStep) and step.for_each else Budget()


def decide(step: Step, scope: Scope, budget: Budget) -> bool:
    """Return whether the `if` of a step is true, by the rules of a condition.

    Raises:
        ExpressionError: as `Expression.evaluate`.
    """
    assert step.condition is not None
    value = expressions.compile(step.condition).evaluate(scope, budget, is_result=False)
    return expressions.truthy(value)


def evaluate(
    step: ConditionStep | TransformStep, scope: Scope, budget: Budget, seen: Seen | None = None
) -> JSON:
    """Return the output of a condition or a transform, whose exact size is charged to the budget.

    An item may use as many nodes as a step without `for_each`, and all items together those of the budget.

    Args:
        step: the step.
        scope: the values that its expressions may read.
        budget: the limit of its cost.
        seen: receives its input, also if it fails.

    Raises:
        ExpressionError: as `Expression.evaluate`, or as `items_of`. If the budget is exhausted the step fails
            as a whole, whatever its `on_error`.
    """
    if seen is not None and not (isinstance(step, TransformStep) and step.for_each is not None):
        seen.value = _values_read(step, scope)
    if isinstance(step, ConditionStep):
        value = expressions.compile(step.config.expression).evaluate(scope, budget, is_result=False)
        result: JSON = {"result": expressions.truthy(value)}
        budget.produce(result)
        return result
    if step.for_each is None:
        return _transform_value(step, scope, budget, 0)
    room = budget.output_left
    items = items_of(step, scope, budget)
    if seen is not None:
        seen.value = items_shown(items)
    budget.output_left = room
    budget.produce_array(len(items))
    found = [_item_transformed(step, {**scope, "item": item}, budget) for item in items]
    if seen is not None:
        seen.items = _tally([problem for _, problem in found])
    return [output for output, _ in found]


def _item_transformed(
    step: TransformStep, scope: Scope, budget: Budget
) -> tuple[JSON, ExpressionError | None]:
    """Return the value for an item in the output, and its error if it failed."""
    try:
        with budget.portion(MAX_NODES):
            return _transform_value(step, scope, budget, 1), None
    except ExpressionError as problem:
        if step.on_error != "continue" or budget.exhausted:
            raise
        failed: JSON = {"error": {"code": problem.code, "message": problem.message}}
        budget.produce(failed)
        return failed, problem


def _tally(problems: list[ExpressionError | None]) -> ItemTally:
    failed = {item: problem for item, problem in enumerate(problems) if problem is not None}
    if not failed:
        return ItemTally(len(problems))
    item, problem = next(iter(failed.items()))
    first = StepError(code=problem.code, message=problem.message)
    return ItemTally(len(problems), len(failed), (item, first))


def _transform_value(step: TransformStep, scope: Scope, budget: Budget, depth: int) -> JSON:
    """Return the value of a transform, which is this many levels deep in the output."""
    value: JSON
    if step.config.mapping is not None:
        value = {}
        for name, text in step.config.mapping.items():
            try:
                value[name] = expressions.compile(text).evaluate(scope, budget, is_result=False)
            except ExpressionError as error:
                raise error.add_key(name) from None
    else:
        assert step.config.expression is not None
        value = expressions.compile(step.config.expression).evaluate(scope, budget, is_result=False)
    budget.produce(value, depth)
    return value


def items_of(step: IteratingStep, scope: Scope, budget: Budget | None = None) -> list[JSON]:
    """Return the array that a step iterates over.

    Raises:
        ExpressionError: `not_an_array`, `too_many_items`, or as `Expression.evaluate`.
    """
    assert step.for_each is not None
    items = expressions.compile(step.for_each).evaluate(scope, budget)
    if not isinstance(items, list):
        raise ExpressionError("not_an_array", "for_each must give an array; give [] for nothing to do.")
    if len(items) > MAX_ITEMS:
        message = f"for_each gives {len(items)} items; at most {MAX_ITEMS} are allowed."
        raise ExpressionError("too_many_items", message)
    return items


def _values_read(step: ConditionStep | TransformStep, scope: Scope) -> JSON:
    if isinstance(step, ConditionStep):
        texts = [step.config.expression]
    else:
        texts = list((step.config.mapping or {"": step.config.expression or ""}).values())
    read: dict[str, JSON] = {}
    for text in texts:
        for root, path, _, compared, _ in expressions.compile(text).references:
            name = ".".join((root, *path))
            if name not in read and not compared and root in scope:
                read[name] = shorten_value(_value_at(scope[root], path))
    return cast(JSON, read)


def _value_at(value: JSON, path: tuple[str, ...]) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def shorten_value(value: JSON, most: int = _SHOWN) -> JSON:
    """Return the value, or a description of a large one, which is visible at its origin."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:100]}… ({len(value)} characters)"
    if not isinstance(value, dict | list) or _weighs_at_most(value, most):
        return value
    what = "an array of" if isinstance(value, list) else "an object of"
    return f"… ({what} {len(value)})"


def _weighs_at_most(value: JSON, most: int) -> bool:
    for weight in _weights(value):
        most -= weight
        if most < 0:
            return False
    return True


def items_shown(items: list[JSON]) -> JSON:
    """Return the items of a step as shown in its input: as many as fit."""
    room, kept = _SHOWN_ITEMS, list[JSON]()
    for item in items:
        one = shorten_value(item)
        room -= sum(_weights(one))
        if room < 0:
            return [*kept, f"… ({len(items) - len(kept)} more)"]
        kept.append(one)
    return kept


def _weights(value: JSON) -> Iterator[int]:
    """Yield the size of each nested value, in nodes and characters, so that the caller can stop early."""
    waiting: list[JSON] = [value]
    while waiting:
        one = waiting.pop()
        yield 1 + (len(one) if isinstance(one, str | dict | list) else 0)
        if isinstance(one, dict):
            yield sum(map(len, one))
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def delay_of(config: DelayConfig, scope: Scope, budget: Budget | None = None) -> JSON:
    """Return the value of a delay's template: the duration, or the end of the wait.

    Raises:
        ExpressionError: as `Template.render`.
    """
    return templates.compile_template(config.template).render(scope, budget)


def child_input_of(config: WorkflowConfig, scope: Scope, budget: Budget | None = None) -> JSON:
    """Return the input of the workflow that a step runs.

    Raises:
        ExpressionError: as `Template.render`.
    """
    return templates.compile_template(config.input).render(scope, budget)


def key_of(config: RememberConfig, scope: Scope, budget: Budget | None = None) -> str:
    """Return the key that a step remembers.

    Raises:
        ExpressionError: `missing_value` if its template has no value, `bad_key` if that is too long or holds
            a NUL, or as `Template.render`.
    """
    return _key(templates.compile_template(config.key).render(scope, budget))


def keys_of(config: RememberConfig, scope: Scope, budget: Budget | None = None) -> list[str]:
    """Return the keys that a step with `keys` remembers, each once and in order.

    Raises:
        ExpressionError: `not_an_array`, `too_many_items`, as `key_of`, or as `Expression.evaluate`.
    """
    assert config.keys is not None
    values = expressions.compile(config.keys).evaluate(scope, budget)
    if not isinstance(values, list):
        raise ExpressionError("not_an_array", "keys must give an array; give [] for nothing to remember.")
    if len(values) > MAX_ITEMS:
        message = f"keys gives {len(values)} texts; at most {MAX_ITEMS} are allowed."
        raise ExpressionError("too_many_items", message)
    return list(dict.fromkeys(map(_key, values)))


def _key(value: JSON) -> str:
    key = value if isinstance(value, str) else "" if value is None else compact_json(value)
    if not key:
        raise ExpressionError("missing_value", "The template of the key gives nothing to remember.")
    if len(key) > MAX_KEY_LENGTH or "\0" in key:
        message = f"A key has at most {MAX_KEY_LENGTH} characters, none of them NUL; hash what is longer."
        raise ExpressionError("bad_key", message)
    return key


def alert_data_of(config: EmitConfig, scope: Scope, budget: Budget | None = None) -> JSON:
    """Render the data of an alert.

    Raises:
        ExpressionError: `alert_too_large`, `nul_character`, or as `Template.render`.
    """
    data = templates.compile_template(config.data).render(scope, budget)
    text = compact_json(data)
    if len(text.encode()) > MAX_ALERT_BYTES:
        message = f"The data of an alert may have {MAX_ALERT_BYTES // 1024} KiB; name the fields that matter."
        raise ExpressionError("alert_too_large", message)
    if _NUL.search(text):
        raise ExpressionError("nul_character", "The data of an alert may hold no NUL character.")
    return data


def prompt_of(config: WaitConfig, scope: Scope, budget: Budget | None = None) -> dict[str, JSON]:
    """Render the question of a step for its answerers: `title` and `message`, if set.

    Raises:
        ExpressionError: as `Template.render`.
    """
    asked = {"title": (config.title, MAX_TITLE_LENGTH), "message": (config.message, MAX_MESSAGE_LENGTH)}
    return {
        name: _shown_text(templates.compile_template(text).render(scope, budget), most)
        for name, (text, most) in asked.items()
        if text is not None
    }


def _shown_text(value: JSON, most: int) -> str:
    text = value if isinstance(value, str) else "" if value is None else compact_json(value)
    text = text.replace("\0", "\ufffd")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def target_of(config: LookupConfig, scope: Scope, budget: Budget | None = None) -> str:
    """Return the target of a lookup step.

    Raises:
        ExpressionError: `missing_value` if it is not a text, or as `Expression.evaluate`.
    """
    if config.field is not None:
        value = field_expression(config.field).evaluate(scope, budget)
    else:
        value = templates.compile_template(config.value).render(scope, budget)
    if not isinstance(value, str):
        raise ExpressionError("missing_value", "The reference gives no text to look up.")
    return value
