"""The text of an expression, read into a tree: the grammar of JMESPath with four additions.

Beyond jmespath.org/specification.html: bare numbers and `true`, `false`, `null` where a value is
expected, `$` for the root of the scope, and `!a.b` negates `a.b`. A parser of our own, since the library's
recurses as deep as the text tells it to, has no places for errors and lets commas be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, cast

from language.expressions.lexer import MAX_DEPTH, Token, bad, tokenize, too_deep
from language.expressions.values import JSON, ExpressionError

MAX_TEXT = 2048

Kind = Literal[
    "literal", "field", "current", "root", "chain", "pipe", "index", "slice", "projection",
    "value_projection", "filter", "flatten", "comparator", "or", "and", "not", "list", "object", "function",
    "expression",
]  # fmt: skip
Slice = tuple[int | None, int | None, int | None]


class Node(NamedTuple):
    """One node of the tree.

    Attributes:
        kind: what it does. `chain` applies its children one to the result of the other, as `pipe` does;
            they differ in what follows a projection. An `expression` is what `&` makes.
        position: 0-based offset in the text.
        value: a literal's value, a field's, function's or comparator's name, an index, an object's names.
        quoted: whether a field or a literal was written in quotes of any kind.
        depth: levels of nodes from here down.
    """

    kind: Kind
    position: int
    value: JSON | Slice | tuple[str, ...] = None
    children: tuple[Node, ...] = ()
    quoted: bool = False
    depth: int = 1


class Parsed(NamedTuple):
    """The tree of a text, and what its author may have meant otherwise, with its places."""

    root: Node
    warnings: tuple[tuple[int, str], ...]


_KEYWORDS: dict[str, JSON] = {"true": True, "false": False, "null": None}
_COMPARATORS = frozenset({"==", "!=", "<", "<=", ">", ">="})
# How strongly a token binds what is left of it (0: not at all), as in the reference implementation.
_BINDING = {
    "|": 1, "||": 2, "&&": 3, **dict.fromkeys(_COMPARATORS, 5), "[]": 9, "*": 20, "[?": 21,
    ".": 40, "{": 50, "[": 55, "(": 60,
}  # fmt: skip
# What `!` negates ends at comparators: `!a.b` is `!(a.b)`. The reference has it between dot and bracket, so
# that `(!a).b` is always null.
_NEGATION = 6
# Tokens that bind less end a projection.
_PROJECTION_STOP = 10


def parse(text: str) -> Parsed:
    """Read an expression.

    Raises:
        ExpressionError: `expression_too_long`, `too_deep` or `bad_expression`.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(
            "expression_too_long", f"An expression has at most {MAX_TEXT} characters.", MAX_TEXT
        )
    tokens, warnings = tokenize(text)
    return Parsed(_Parser(tokens).whole(), tuple(warnings))


class _Parser:
    """Top-down operator precedence: `_prefix` reads what can begin an expression, `_infix` what follows."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression(0)
        self._expect("end")
        return node

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _peek(self, offset: int) -> str:
        return self._tokens[min(self._index + offset, len(self._tokens) - 1)].kind

    def _take(self) -> Token:
        token = self._tokens[self._index]
        self._index = min(self._index + 1, len(self._tokens) - 1)
        return token

    def _accept(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._take()
        return True

    def _expect(self, kind: str) -> None:
        if not self._accept(kind):
            raise self._unexpected(self._next)

    def _unexpected(self, token: Token) -> ExpressionError:
        if token.kind == "end":
            return bad("The expression ends too early.", token.position)
        return bad(f"There is a {token.kind} where none can be.", token.position)

    def _node(
        self,
        kind: Kind,
        position: int,
        *children: Node,
        value: JSON | Slice | tuple[str, ...] = None,
        quoted: bool = False,
    ) -> Node:
        depth = 1
        for child in children:
            depth = max(depth, child.depth + 1)
        if depth > MAX_DEPTH:
            raise too_deep(position)
        return Node(kind, position, value, children, quoted, depth)

    def _joined(self, kind: Kind, left: Node, right: Node) -> Node:
        """`a.b.c` and `a || b || c` as one node, so that long ones are not deep."""
        joined = self._node(kind, left.position, *(right.children if right.kind == kind else (right,)))
        if left.kind != kind:
            left = self._node(kind, left.position, left)
        depth = max(left.depth, joined.depth)
        return joined._replace(children=left.children + joined.children, depth=depth)

    def _expression(self, binding: int, left: Node | None = None) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep(self._next.position)
        if left is None:
            left = self._prefix(self._take())
        while binding < _BINDING.get(self._next.kind, 0):
            left = self._infix(left, self._take())
        self._depth -= 1
        return left

    def _prefix(self, token: Token) -> Node:
        kind, position = token.kind, token.position
        if kind == "name":
            name = cast(str, token.value)
            if name in _KEYWORDS:
                return self._node("literal", position, value=_KEYWORDS[name])
            return self._node("field", position, value=name)
        if kind == "quoted":
            return self._node("field", position, value=token.value, quoted=True)
        if kind in ("literal", "number"):
            return self._node("literal", position, value=token.value, quoted=kind == "literal")
        reader = self._PREFIXES.get(kind)
        if reader is None:
            raise self._unexpected(token)
        return reader(self, position)

    def _infix(self, left: Node, token: Token) -> Node:
        if token.kind in _COMPARATORS:
            return self._node(
                "comparator", token.position, left, self._expression(_BINDING[token.kind]), value=token.kind
            )
        reader = self._INFIXES.get(token.kind)
        if reader is None:
            raise self._unexpected(token)
        return reader(self, left, token.position)

    def _current(self, position: int) -> Node:
        return self._node("current", position)

    def _root(self, position: int) -> Node:
        return self._node("root", position)

    def _parenthesis(self, position: int) -> Node:
        inner = self._expression(0)
        self._expect(")")
        return inner

    def _not(self, position: int) -> Node:
        return self._node("not", position, self._expression(_NEGATION))

    def _reference(self, position: int) -> Node:
        return self._node("expression", position, self._expression(0))

    def _or(self, left: Node, position: int) -> Node:
        return self._joined("or", left, self._expression(_BINDING["||"]))

    def _and(self, left: Node, position: int) -> Node:
        return self._joined("and", left, self._expression(_BINDING["&&"]))

    def _pipe(self, left: Node, position: int) -> Node:
        return self._joined("pipe", left, self._expression(_BINDING["|"]))

    def _dot(self, left: Node, position: int) -> Node:
        if self._accept("*"):
            return self._node("value_projection", position, left, self._projected(_BINDING["."], position))
        return self._joined("chain", left, self._after_dot(_BINDING["."]))

    def _after_dot(self, binding: int) -> Node:
        if self._next.kind == "*":
            return self._expression(binding)
        token = self._take()
        if token.kind in ("name", "quoted"):
            # Here `true` is a field like any other.
            field = self._node("field", token.position, value=token.value, quoted=token.kind == "quoted")
            return self._expression(binding, field)
        if token.kind == "[":
            return self._list_after_dot(token.position)
        if token.kind == "{":
            return self._object(token.position)
        raise self._unexpected(token)

    def _list_after_dot(self, position: int) -> Node:
        items = self._list(position)
        for item in items.children:
            bare = item.kind == "literal" and not item.quoted
            if bare and isinstance(item.value, (int, float)) and not isinstance(item.value, bool):
                raise bad("An element is written a[0], without a dot.", item.position)
        return items

    def _projected(self, binding: int, position: int) -> Node:
        """What is applied to each element of the projection just read."""
        token = self._next
        if _BINDING.get(token.kind, 0) < _PROJECTION_STOP:
            return self._current(position)
        if token.kind in ("[", "[?"):
            return self._expression(binding)
        if self._accept("."):
            return self._after_dot(binding)
        raise self._unexpected(token)

    def _star(self, position: int) -> Node:
        left = self._current(position)
        right = (
            self._current(position) if self._next.kind == "]" else self._projected(_BINDING["*"], position)
        )
        return self._node("value_projection", position, left, right)

    def _flatten_first(self, position: int) -> Node:
        return self._flatten(self._current(position), position)

    def _flatten(self, left: Node, position: int) -> Node:
        flattened = self._node("flatten", position, left)
        return self._node("projection", position, flattened, self._projected(_BINDING["[]"], position))

    def _filter_first(self, position: int) -> Node:
        return self._filter(self._current(position), position)

    def _filter(self, left: Node, position: int) -> Node:
        condition = self._expression(0)
        self._expect("]")
        right = (
            self._current(position) if self._next.kind == "[]" else self._projected(_BINDING["[?"], position)
        )
        return self._node("filter", position, left, right, condition)

    def _bracket_first(self, position: int) -> Node:
        # `[1, 2]` and `[1.5]` are lists of numbers, `[1]` is the second element.
        is_index = isinstance(self._next.value, int) and self._peek(1) in ("]", ":")
        if self._peek(0) == ":" or (self._peek(0) == "number" and is_index):
            return self._index_or_slice(self._current(position), position)
        if self._peek(0) == "*" and self._peek(1) == "]":
            return self._all_elements(self._current(position), position)
        return self._list(position)

    def _bracket(self, left: Node, position: int) -> Node:
        if self._peek(0) in ("number", ":"):
            return self._index_or_slice(left, position)
        return self._all_elements(left, position)

    def _all_elements(self, left: Node, position: int) -> Node:
        self._expect("*")
        self._expect("]")
        return self._node("projection", position, left, self._projected(_BINDING["*"], position))

    def _index_or_slice(self, left: Node, position: int) -> Node:
        parts: list[int | None] = [None]
        while not self._accept("]"):
            token = self._take()
            if token.kind == ":" and len(parts) < 3:
                parts.append(None)
            elif token.kind == "number" and isinstance(token.value, int) and parts[-1] is None:
                parts[-1] = token.value
            else:
                raise self._unexpected(token)
        if len(parts) == 1:
            return self._joined("chain", left, self._node("index", position, value=parts[0]))
        start, stop, step = [*parts, None][:3]
        if step == 0:
            raise bad("The step of a slice cannot be 0.", position)
        sliced = self._joined("chain", left, self._node("slice", position, value=(start, stop, step)))
        return self._node("projection", position, sliced, self._projected(_BINDING["*"], position))

    def _items(self, closing: str) -> tuple[Node, ...]:
        items = [self._expression(0)]
        while self._accept(","):
            items.append(self._expression(0))
        self._expect(closing)
        return tuple(items)

    def _list(self, position: int) -> Node:
        return self._node("list", position, *self._items("]"))

    def _object(self, position: int) -> Node:
        names: list[str] = []
        values: list[Node] = []
        while True:
            token = self._take()
            if token.kind not in ("name", "quoted"):
                raise self._unexpected(token)
            names.append(cast(str, token.value))
            self._expect(":")
            values.append(self._expression(0))
            if not self._accept(","):
                break
        self._expect("}")
        return self._node("object", position, *values, value=tuple(names))

    def _call(self, left: Node, position: int) -> Node:
        if left.kind != "field" or self._peek(-2) != "name":
            raise bad("Only a name in front of a parenthesis calls a function.", position)
        arguments = () if self._accept(")") else self._items(")")
        return self._node("function", left.position, *arguments, value=cast(str, left.value))

    _PREFIXES: ClassVar[dict[str, Callable[[_Parser, int], Node]]] = {
        "@": _current,
        "$": _root,
        "*": _star,
        "(": _parenthesis,
        "!": _not,
        "&": _reference,
        "[": _bracket_first,
        "[]": _flatten_first,
        "[?": _filter_first,
        "{": _object,
    }
    _INFIXES: ClassVar[dict[str, Callable[[_Parser, Node, int], Node]]] = {
        ".": _dot,
        "|": _pipe,
        "||": _or,
        "&&": _and,
        "[": _bracket,
        "[]": _flatten,
        "[?": _filter,
        "(": _call,
    }
