"""All functions of expressions, by name."""

from __future__ import annotations

from language.expressions.community import COMMUNITY
from language.expressions.encodings import ENCODINGS
from language.expressions.functions import SPECIFIED
from language.expressions.signatures import Function
from language.expressions.times import TIMES

FUNCTIONS: dict[str, Function] = {**SPECIFIED, **COMMUNITY, **TIMES, **ENCODINGS}
"""Those of JMESPath, of JMESPath Community, and ours."""
