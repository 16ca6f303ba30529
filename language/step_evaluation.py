"""Steps that need nothing from outside: conditions, transforms, and the items that a step iterates over.

The interpreter does them within the workflow, activities where the data is stored, a dry run anywhere:
all by these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from language import expressions, templates
from language.definition import (
    MAX_ITEMS,
    ConditionStep,
    DelayConfig,
    IteratingStep,
    LookupConfig,
    Step,
    TransformStep,
    WebhookConfig,
    field_expression,
)
from language.expressions import JSON, Budget, ExpressionError
from language.expressions.values import MAX_NODES

ALL_ITEMS_NODES = 10 * MAX_NODES
"""What the items of a `for_each` may visit together, where there is time for it."""

Scope = Mapping[str, JSON]


def budget_of(step: Step) -> Budget:
    """What evaluating a step may cost in all: the items of a `for_each` share ten times the nodes of one."""
    return Budget(nodes=ALL_ITEMS_NODES) if isinstance(step, IteratingStep) and step.for_each else Budget()


def evaluate(step: ConditionStep | TransformStep, scope: Scope, budget: Budget) -> JSON:
    """The output of a condition or a transform, whose size is taken off the budget exactly.

    An item may use as many nodes as a step without `for_each`, and all of them what the budget has.

    Raises:
        ExpressionError: as `Expression.evaluate`, or as `items_of`. Where the budget is exhausted the step
            fails as a whole, whatever its `on_error`.
    """
    if isinstance(step, ConditionStep):
        value = expressions.compile(step.config.expression).evaluate(scope, budget, is_result=False)
        result: JSON = {"result": expressions.truthy(value)}
        budget.produce(result)
        return result
    if step.for_each is None:
        return _transformed(step, scope, budget, 0)
    room = budget.output_left
    items = items_of(step, scope, budget)
    budget.output_left = room
    budget.produce_array(len(items))
    return [_item_transformed(step, {**scope, "item": item}, budget) for item in items]


def _item_transformed(step: TransformStep, scope: Scope, budget: Budget) -> JSON:
    try:
        with budget.portion(MAX_NODES):
            return _transformed(step, scope, budget, 1)
    except ExpressionError as problem:
        if step.on_error != "continue" or budget.exhausted:
            raise
        failed: JSON = {"error": {"code": problem.code, "message": problem.message}}
        budget.produce(failed)
        return failed


def _transformed(step: TransformStep, scope: Scope, budget: Budget, depth: int) -> JSON:
    """The value of a transform, which is so many levels down in the output."""
    value: JSON
    if step.config.mapping is not None:
        value = {
            name: expressions.compile(text).evaluate(scope, budget, is_result=False)
            for name, text in step.config.mapping.items()
        }
    else:
        assert step.config.expression is not None
        value = expressions.compile(step.config.expression).evaluate(scope, budget, is_result=False)
    budget.produce(value, depth)
    return value


def items_of(step: IteratingStep, scope: Scope, budget: Budget | None = None) -> list[JSON]:
    """The array that a step iterates over.

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


def until_of(config: DelayConfig, scope: Scope, budget: Budget | None = None) -> JSON:
    """What the template of `until` gives.

    Raises:
        ExpressionError: as `Template.render`.
    """
    return templates.compile_template(config.until).render(scope, budget)


class Request(NamedTuple):
    """What a webhook step sends."""

    method: str
    url: str
    headers: dict[str, JSON]
    body: JSON


class RequestTemplates:
    """The templates of a webhook step, compiled once for all its rows.

    Attributes:
        secrets: those that they name.
    """

    def __init__(self, config: WebhookConfig) -> None:
        self._method = config.method
        self._url = templates.compile_template(config.url)
        self._headers = templates.compile_template(dict(config.headers))
        self._body = templates.compile_template(config.body)
        named = (*self._url.secrets, *self._headers.secrets, *self._body.secrets)
        self.secrets = tuple(dict.fromkeys(named))

    def render(self, scope: Scope, new_budget: Callable[[], Budget] = Budget) -> Request:
        """The request for one row; the scope may have `secrets`. URL, headers and body have a budget each.

        Raises:
            ExpressionError: `missing_value` if a part of the URL has no value, or as `Template.render`.
        """
        url = self._url.render(scope, new_budget(), for_url=True)
        if not isinstance(url, str) or not url:
            raise ExpressionError("missing_value", "The URL's template gives no text.")
        headers = self._headers.render(scope, new_budget())
        assert isinstance(headers, dict)
        return Request(self._method, url, headers, self._body.render(scope, new_budget()))


def target_of(config: LookupConfig, scope: Scope, budget: Budget | None = None) -> str:
    """What a lookup step looks up.

    Raises:
        ExpressionError: `missing_value` if that is no text, or as `Expression.evaluate`.
    """
    if config.field is not None:
        value = field_expression(config.field).evaluate(scope, budget)
    else:
        value = templates.compile_template(config.value).render(scope, budget)
    if not isinstance(value, str):
        raise ExpressionError("missing_value", "The reference gives no text to look up.")
    return value
