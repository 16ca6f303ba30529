"""The tree of an expression made into nested functions, which charge a budget for what they visit.

What a node costs apart from loops is known beforehand and charged at once, by the evaluation or by the loop
around it; a loop charges for all its rounds before the first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from language.expressions import parser, references
from language.expressions.hints import instead_of
from language.expressions.library import FUNCTIONS, Library
from language.expressions.parser import Node, Type
from language.expressions.signatures import (
    CHECKED_BY_ELEMENT,
    CHECKS,
    EXPRESSION,
    Function,
    Mapper,
    wrong_type,
)
from language.expressions.values import (
    CHEAP_VISITS,
    COMPARED_CHARACTERS,
    JSON,
    Budget,
    ExpressionError,
    equals,
    truthy,
)


class Context(Library):
    """The constants of one evaluation: the root of the scope, and functions with their budget."""

    def __init__(self, root: JSON, budget: Budget) -> None:
        self.root = root
        self.budget = budget


Run = Callable[[JSON, Context], JSON]


class Compiled(NamedTuple):
    """A node as a function from its input to its result.

    `nodes` is what one call visits at most, apart from what it charges itself for each element of an array.
    """

    run: Run
    nodes: int


def compile_node(node: Node) -> Compiled:
    """Check a tree's functions and make it callable.

    Raises:
        ExpressionError: `unknown_function`, `wrong_arity`, `wrong_type` or, for a `&`, `bad_expression`.
    """
    return _BUILDERS[node["type"]](node)


def _literal(node: Node) -> Compiled:
    literal = node["value"]

    def run(value: JSON, context: Context) -> JSON:
        return literal

    return Compiled(run, 1)


def _itself(value: JSON, context: Context) -> JSON:
    return value


def _current(node: Node) -> Compiled:
    return Compiled(_itself, 1)


def _root(node: Node) -> Compiled:
    def run(value: JSON, context: Context) -> JSON:
        return context.root

    return Compiled(run, 1)


def _field(node: Node) -> Compiled:
    name = node["value"]

    def run(value: JSON, context: Context) -> JSON:
        return value.get(name) if isinstance(value, dict) else None

    return Compiled(run, 1)


def _path(names: tuple[str, ...]) -> Compiled:
    def run(value: JSON, context: Context) -> JSON:
        for name in names:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    return Compiled(run, len(names))


def _compile_call(node: Node) -> Compiled:
    names = references.plain_path(node)
    if names is not None:
        return _path(names)
    parts = [compile_node(child) for child in node["children"]]
    runs = tuple(part.run for part in parts)

    def run(value: JSON, context: Context) -> JSON:
        for step in runs:
            value = step(value, context)
        return value

    return Compiled(run, sum(part.nodes for part in parts))


def _index(node: Node) -> Compiled:
    index = node["value"]

    def run(value: JSON, context: Context) -> JSON:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return value[index]
        return None

    return Compiled(run, 1)


def _slice(node: Node) -> Compiled:
    part = slice(*node["value"])

    def run(value: JSON, context: Context) -> JSON:
        if not isinstance(value, list):
            return None
        context.budget.spend(len(value) // CHEAP_VISITS)
        return value[part]

    return Compiled(run, 1)


def _each(array: list[JSON], right: Compiled, context: Context) -> list[JSON]:
    context.budget.spend(len(array) * (1 + right.nodes))
    run = right.run
    return [result for item in array if (result := run(item, context)) is not None]


def _projection(node: Node) -> Compiled:
    left, right = map(compile_node, node["children"])

    def run(value: JSON, context: Context) -> JSON:
        array = left.run(value, context)
        return _each(array, right, context) if isinstance(array, list) else None

    return Compiled(run, 1 + left.nodes)


def _value_projection(node: Node) -> Compiled:
    left, right = map(compile_node, node["children"])

    def run(value: JSON, context: Context) -> JSON:
        mapping = left.run(value, context)
        return _each(list(mapping.values()), right, context) if isinstance(mapping, dict) else None

    return Compiled(run, 1 + left.nodes)


def _filter(node: Node) -> Compiled:
    left, right, condition = map(compile_node, node["children"])
    decide = condition.run

    def run(value: JSON, context: Context) -> JSON:
        array = left.run(value, context)
        if not isinstance(array, list):
            return None
        context.budget.spend(len(array) * (1 + condition.nodes))
        return _each([item for item in array if truthy(decide(item, context))], right, context)

    return Compiled(run, 1 + left.nodes)


def _flatten(node: Node) -> Compiled:
    (inner,) = map(compile_node, node["children"])

    def run(value: JSON, context: Context) -> JSON:
        array = inner.run(value, context)
        if not isinstance(array, list):
            return None
        context.budget.spend(len(array) // CHEAP_VISITS)
        length = sum(len(item) if isinstance(item, list) else 1 for item in array)
        context.budget.spend(length // CHEAP_VISITS)
        flat: list[JSON] = []
        for item in array:
            if isinstance(item, list):
                flat += item
            else:
                flat.append(item)
        return flat

    return Compiled(run, 1 + inner.nodes)


def _equality(node: Node) -> Compiled:
    left, right = map(compile_node, node["children"])
    wanted = node["value"] == "eq"

    def run(value: JSON, context: Context) -> JSON:
        return equals(left.run(value, context), right.run(value, context), context.budget) is wanted

    return Compiled(run, 1 + left.nodes + right.nodes)


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "lte": operator.le, "gt": operator.gt, "gte": operator.ge,
}  # fmt: skip


def _comparator(node: Node) -> Compiled:
    if node["value"] in ("eq", "ne"):
        return _equality(node)
    left, right = map(compile_node, node["children"])
    compare = _ORDERS[node["value"]]

    def run(value: JSON, context: Context) -> JSON:
        one, other = left.run(value, context), right.run(value, context)
        if isinstance(one, str) and isinstance(other, str):
            context.budget.spend(min(len(one), len(other)) // COMPARED_CHARACTERS)
        elif (
            not isinstance(one, (int, float))
            or not isinstance(other, (int, float))
            or isinstance(one, bool)
            or isinstance(other, bool)
        ):
            return None
        return compare(one, other)

    return Compiled(run, 1 + left.nodes + right.nodes)


def _first(node: Node, wanted: bool) -> Compiled:
    """`||` and `&&`: the first of the operands whose truth is as wanted, else the last."""
    parts = [compile_node(child) for child in node["children"]]
    *before, last = (part.run for part in parts)

    def run(value: JSON, context: Context) -> JSON:
        for operand in before:
            result = operand(value, context)
            if truthy(result) is wanted:
                return result
        return last(value, context)

    return Compiled(run, 1 + sum(part.nodes for part in parts))


def _not(node: Node) -> Compiled:
    (inner,) = map(compile_node, node["children"])

    def run(value: JSON, context: Context) -> JSON:
        return not truthy(inner.run(value, context))

    return Compiled(run, 1 + inner.nodes)


def _list(node: Node) -> Compiled:
    parts = [compile_node(child) for child in node["children"]]
    runs = tuple(part.run for part in parts)

    def run(value: JSON, context: Context) -> JSON:
        return None if value is None else [item(value, context) for item in runs]

    return Compiled(run, 1 + sum(part.nodes for part in parts))


def _object(node: Node) -> Compiled:
    pairs = [(pair["value"], compile_node(pair["children"][0])) for pair in node["children"]]
    named = tuple((name, part.run) for name, part in pairs)

    def run(value: JSON, context: Context) -> JSON:
        return None if value is None else {name: item(value, context) for name, item in named}

    return Compiled(run, 1 + sum(part.nodes for _, part in pairs))


def _refuse_reference(node: Node) -> Compiled:
    raise parser.bad(
        "An expression with & is only for functions that take one, such as map().", node["position"]
    )


def _function(node: Node) -> Compiled:
    name = node["value"]
    function = FUNCTIONS.get(name)
    if function is None:
        message = f"There is no such function.{instead_of(name)}"
        raise ExpressionError("unknown_function", message, node["position"])
    function.check_arity(len(node["children"]), node["position"])
    arguments = [_argument(function, index, child) for index, child in enumerate(node["children"])]
    checked = tuple(
        (argument.run, *_check(function, index), child["position"])
        for index, (argument, child) in enumerate(zip(arguments, node["children"], strict=True))
    )
    call, position = function.call, node["position"]

    def run(value: JSON, context: Context) -> JSON:
        given: list[JSON] = []
        for argument, check, wanted, place in checked:
            result = argument(value, context)
            if wanted in CHECKED_BY_ELEMENT and isinstance(result, list):
                context.budget.spend(len(result) // CHEAP_VISITS)
            if check is not None and not check(result):
                raise wrong_type(name, wanted, result, place)
            given.append(result)
        try:
            return call(context, *given)
        except ExpressionError as error:
            raise _add_place(error, position) from None

    return Compiled(run, 1 + sum(argument.nodes for argument in arguments))


def _add_place(error: ExpressionError, position: int) -> ExpressionError:
    """Return the error with the place of its function; a limit gets no place, which would help nobody."""
    if error.position is None and error.code in ("wrong_type", "invalid_value"):
        error.position = position
    return error


def _check(function: Function, index: int) -> tuple[Callable[[JSON], bool] | None, str]:
    wanted = function.parameter(index)["wanted"]
    return CHECKS.get(wanted), wanted


def _argument(function: Function, index: int, node: Node) -> Compiled:
    parameter = function.parameter(index)
    wants_expression = parameter == EXPRESSION
    if wants_expression and node["type"] != "expref":
        message = f"{function.name}() takes an expression with & as argument {index + 1}."
        raise ExpressionError("wrong_type", message, node["position"])
    if node["type"] == "literal" and "check" in parameter and CHECKS[parameter["wanted"]](node["value"]):
        try:
            parameter["check"](node["value"])
        except ExpressionError as error:
            raise _add_place(error, node["position"]) from None
    return _mapper(node) if wants_expression else compile_node(node)


def _mapper(node: Node) -> Compiled:
    (inner,) = map(compile_node, node["children"])
    each = inner.run

    def run(value: JSON, context: Context) -> JSON:
        def apply(array: list[JSON]) -> list[JSON]:
            context.budget.spend(len(array) * (1 + inner.nodes))
            return [each(item, context) for item in array]

        return cast(JSON, cast(Mapper, apply))

    return Compiled(run, 1)


_BUILDERS: dict[Type, Callable[[Node], Compiled]] = {
    "literal": _literal,
    "field": _field,
    "current": _current,
    "identity": _current,
    "root": _root,
    "subexpression": _compile_call,
    "pipe": _compile_call,
    "index": _index,
    "slice": _slice,
    "projection": _projection,
    "value_projection": _value_projection,
    "filter_projection": _filter,
    "flatten": _flatten,
    "comparator": _comparator,
    "or_expression": lambda node: _first(node, True),
    "and_expression": lambda node: _first(node, False),
    "not_expression": _not,
    "multi_select_list": _list,
    "multi_select_dict": _object,
    "function_expression": _function,
    "expref": _refuse_reference,
}
