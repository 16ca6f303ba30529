"""Expressions over JSON: JMESPath with bare numbers, `true/false/null` and `$`, bounded in all it does.

An expression is compiled once and evaluated many times. Evaluation knows no clock and no chance, charges a
budget before it works, and fails in no other way than with ExpressionError, so that it can run in workflow
code and over the data of strangers. docs/expressions.md describes the language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps

from language.expressions import evaluator, parser, references
from language.expressions.references import WHOLE_SCOPE, Reference
from language.expressions.values import JSON, Budget, ExpressionError, truthy

__all__ = ["JSON", "WHOLE_SCOPE", "Budget", "Expression", "ExpressionError", "Reference", "compile", "truthy"]

# Of the expressions kept in each half; one takes up to 350 bytes a character, so both take 60 MB at most.
_KEPT_CHARACTERS = 80 * 1024
# As many characters weigh what even the shortest takes.
_OVERHEAD = 8


@dataclass(frozen=True)
class Expression:
    """A compiled expression. Made by `compile`.

    Attributes:
        text: as it was written.
        references: what it reads from the root of the scope, in order of appearance; the root
            WHOLE_SCOPE where it looks at the scope as a whole.
        path: the names, if the expression is nothing but names and dots; else None.
        warnings: what its author may have meant otherwise, each at a 0-based offset in the text; apart from
            references that are `compared`.
    """

    text: str
    references: tuple[Reference, ...] = field(compare=False)
    path: tuple[str, ...] | None = field(compare=False)
    warnings: tuple[tuple[int, str], ...] = field(compare=False)
    _compiled: evaluator.Compiled = field(compare=False, repr=False)

    def evaluate(
        self, scope: Mapping[str, JSON], budget: Budget | None = None, *, is_result: bool = True
    ) -> JSON:
        """Return the value over a scope. It may share parts with the scope: change neither.

        Args:
            scope: the names that the expression can read.
            budget: what the work is charged to; one of its own by default.
            is_result: charge the value as a result; else the caller must, or have a use for it that is
                bounded by itself.

        Raises:
            ExpressionError: `wrong_type`, `too_many_nodes`, `output_too_large` or `too_deep`.
        """
        if budget is None:
            budget = Budget()
        root = scope if isinstance(scope, dict) else dict(scope)
        budget.spend(self._compiled.nodes)
        try:
            value = self._compiled.run(root, evaluator.Context(root, budget))
            if is_result:
                budget.produce(value)
        except RecursionError:
            # Only where the caller's own stack was almost full: an expression takes a few hundred frames.
            raise ExpressionError("too_deep", "There is no room left to evaluate the expression.") from None
        return value


def _cache_compiled(compile_anew: Callable[[str], Expression]) -> Callable[[str], Expression]:
    """Keep what was compiled or asked for lately, in two halves of which the older is dropped as a whole.

    The expressions of any one definition fit into a half, so that its rows never compile them again.
    """
    newer: dict[str, Expression] = {}
    older: dict[str, Expression] = {}
    room = _KEPT_CHARACTERS

    @wraps(compile_anew)
    def compile_or_find(text: str) -> Expression:
        nonlocal newer, older, room
        found = newer.get(text)
        if found is None:
            found = older.get(text) or compile_anew(text)
            weight = len(text) + _OVERHEAD
            if weight > room:
                newer, older, room = {}, newer, _KEPT_CHARACTERS
            newer[text] = found
            room -= weight
        return found

    return compile_or_find


@_cache_compiled
def compile(text: str) -> Expression:
    """Read and check an expression.

    Raises:
        ExpressionError: `bad_expression`, `unknown_function`, `wrong_arity`, `wrong_type` for an argument
            that can never fit, `expression_too_long` or `too_deep`.
    """
    parsed = parser.parse(text)
    reading = references.read_references(parsed.root)
    return Expression(
        text,
        reading.references,
        references.plain_path(parsed.root),
        parsed.warnings + reading.doubts,
        evaluator.compile_node(parsed.root),
    )
