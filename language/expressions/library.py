"""All functions of expressions, by name."""

from __future__ import annotations

from language.expressions.community import COMMUNITY
from language.expressions.functions import SPECIFIED
from language.expressions.signatures import Function

FUNCTIONS: dict[str, Function] = {**SPECIFIED, **COMMUNITY}
"""Those of JMESPath and of JMESPath Community."""
