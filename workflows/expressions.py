"""Expressions over JSON: JMESPath with bare numbers, `true/false/null` and `$`, bounded in all it does.

An expression is compiled once and evaluated many times. Evaluation knows no clock and no chance, charges a
budget before it works, and fails in no other way than with ExpressionError, so that it can run in workflow
code and over the data of strangers. docs/expressions.md describes the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from workflows import evaluation, references, syntax
from workflows.references import WHOLE_SCOPE, Reference
from workflows.values import JSON, Budget, ExpressionError, truthy

__all__ = ["JSON", "WHOLE_SCOPE", "Budget", "Expression", "ExpressionError", "Reference", "compile", "truthy"]

# A long one takes 250 KB.
_CACHED = 256


@dataclass(frozen=True)
class Expression:
    """A compiled expression. Made by `compile`.

    Attributes:
        text: as it was written.
        references: what it reads from the root of the scope, in order of appearance; the root
            WHOLE_SCOPE where it looks at the scope as a whole.
        path: the names, if the expression is nothing but names and dots; else None.
        warnings: what its author may have meant otherwise.
    """

    text: str
    references: tuple[Reference, ...] = field(compare=False)
    path: tuple[str, ...] | None = field(compare=False)
    warnings: tuple[str, ...] = field(compare=False)
    _compiled: evaluation.Compiled = field(compare=False, repr=False)

    def evaluate(self, scope: Mapping[str, JSON], budget: Budget | None = None) -> JSON:
        """The value over a scope. It may share parts with the scope: neither may be changed.

        Args:
            scope: the names that the expression can read.
            budget: what the work is charged to; one of its own by default.

        Raises:
            ExpressionError: `wrong_type`, `too_many_nodes`, `output_too_large` or `too_deep`.
        """
        if budget is None:
            budget = Budget()
        root = scope if isinstance(scope, dict) else dict(scope)
        budget.spend(self._compiled.nodes)
        try:
            value = self._compiled.run(root, evaluation.Context(root, budget))
            budget.produce(value)
        except RecursionError:
            # Only where the caller's own stack was almost full: an expression takes a few hundred frames.
            raise ExpressionError("too_deep", "There is no room left to evaluate the expression.") from None
        return value


@lru_cache(maxsize=_CACHED)
def compile(text: str) -> Expression:
    """Read and check an expression.

    Raises:
        ExpressionError: `bad_expression`, `unknown_function`, `wrong_arity`, `wrong_type` for an argument
            that can never fit, `expression_too_long` or `too_deep`.
    """
    parsed = syntax.parse(text)
    return Expression(
        text,
        references.references(parsed.root),
        references.plain_path(parsed.root),
        parsed.warnings + references.warnings(parsed.root),
        evaluation.compile_node(parsed.root),
    )
