"""All functions of expressions, by name."""

from __future__ import annotations

from language.expressions.community import Community
from language.expressions.encodings import Encodings
from language.expressions.functions import Specified
from language.expressions.signatures import Function
from language.expressions.times import Times


class Library(Specified, Community, Times, Encodings):
    """The functions of JMESPath, of JMESPath Community, and ours."""


FUNCTIONS = {
    name: Function(name, declared["signature"], declared["function"])
    for name, declared in Library.FUNCTION_TABLE.items()
}
"""The functions of `Library`."""
