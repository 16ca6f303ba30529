"""The text of an expression, read into a tree by jmespath's parser, with four additions to the grammar.

Beyond jmespath.org/specification.html: bare numbers and `true`, `false`, `null` where a value is
expected, `$` for the root of the scope, and `!a.b` negates `a.b`. What jmespath's parser lets pass is
refused: what is nested too deep, and commas that are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, NotRequired, TypedDict, cast

from jmespath import ast, parser
from jmespath.exceptions import ParseError

from language.expressions.lexer import MAX_DEPTH, Lexer, Token, bad, too_deep, too_early
from language.expressions.values import JSON, ExpressionError

MAX_TEXT = 2048

Type = Literal[
    "literal", "field", "current", "identity", "root", "subexpression", "pipe", "index", "slice",
    "projection", "value_projection", "filter_projection", "flatten", "comparator", "or_expression",
    "and_expression", "not_expression", "multi_select_list", "multi_select_dict", "key_val_pair",
    "function_expression", "expref",
]  # fmt: skip


class Node(TypedDict):
    """One node of the tree, as jmespath makes it, and what is noted on it.

    Three things differ: `a.b[0].c`, `a || b || c`, `a && b && c` and `a | b | c` are one node each, a slice
    has its bounds as its value, and `$` is a `root`.

    Attributes:
        type: what it does.
        children: the nodes that it works on.
        value: a literal's value, an index, the name of a field, function, pair or comparator; else missing.
        position: 0-based offset in the text.
        height: levels of nodes from here down.
        quoted: there if a field was written in quotes.
    """

    type: Type
    children: list[Node]
    value: Any
    position: int
    height: int
    quoted: NotRequired[bool]


class Parsed(NamedTuple):
    """The tree of a text, and what its author may have meant otherwise, with its places."""

    root: Node
    warnings: tuple[tuple[int, str], ...]


_KEYWORDS: dict[str, JSON] = {"true": True, "false": False, "null": None}
# What messages call the words that are no signs.
_WORDS = {
    "unquoted_identifier": "name", "quoted_identifier": "quoted", "literal": "literal", "number": "number",
    "decimal": "number",
}  # fmt: skip

# A node that is being made: what is noted on it may still be missing.
_Raw = dict[str, Any]


def parse(text: str) -> Parsed:
    """Read an expression.

    Raises:
        ExpressionError: `expression_too_long`, `too_deep` or `bad_expression`.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(
            "expression_too_long", f"An expression has at most {MAX_TEXT} characters.", MAX_TEXT
        )
    lexer = Lexer()
    try:
        root = _Parser(list(lexer.tokenize(text))).whole()
    except ParseError as error:
        kind, position = error.token_type.lower(), error.lex_position
        if kind == "eof":
            raise too_early(position) from None
        found = _WORDS.get(kind, error.token_value)
        raise bad(f"There is a {found} where none can be.", position) from None
    return Parsed(cast(Node, root), tuple(lexer.warnings))


class _Parser(parser.Parser):
    """jmespath's parser, bounded; it notes where nodes stand.

    A `_token_nud_…` reads what can begin an expression, a `_token_led_…` what follows on what is left of it.
    """

    BINDING_POWER: ClassVar[dict[str, int]] = {
        **parser.Parser.BINDING_POWER,
        "decimal": 0,
        "root": 0,
        # What `!` negates ends at comparators: `!a.b` is `!(a.b)`. jmespath has it between dot and bracket,
        # and `(!a).b` is always null.
        "not": 6,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__()
        self._tokens = tokens
        self._depth = 0

    def whole(self) -> _Raw:
        """Read all of the tokens."""
        node = self._expression()
        self._match("eof")
        return node

    def _expression(self, binding_power: int = 0) -> _Raw:
        self._depth += 1
        token = self._lookahead_token(0)
        if self._depth > MAX_DEPTH:
            raise too_deep(token["start"])
        self._advance()
        nud: Callable[[Token], _Raw] = getattr(self, f"_token_nud_{token['type']}", self._error_nud_token)
        left = _note_place(nud(token), token["start"])
        while binding_power < self.BINDING_POWER[(token := self._lookahead_token(0))["type"]]:
            led: Callable[[_Raw], _Raw] | None = getattr(self, f"_token_led_{token['type']}", None)
            if led is None:
                self._error_led_token(token)
            self._advance()
            left = _note_place(led(left), token["start"])
        self._depth -= 1
        return left

    def _token_nud_root(self, token: Token) -> _Raw:
        return {"type": "root", "children": []}

    def _token_nud_number(self, token: Token) -> _Raw:
        return {**ast.literal(token["value"]), "bare": True}

    _token_nud_decimal = _token_nud_number

    def _token_nud_unquoted_identifier(self, token: Token) -> _Raw:
        name = token["value"]
        # After a dot `true` is a field like any other.
        if name in _KEYWORDS and self._lookahead(-2) != "dot":
            return ast.literal(_KEYWORDS[name])
        return ast.field(name)

    def _token_nud_quoted_identifier(self, token: Token) -> _Raw:
        return {**ast.field(token["value"]), "quoted": True}

    def _token_nud_lbracket(self, token: Token) -> _Raw:
        # `[1, 2]` is a list of numbers, `[1]` is the second element.
        if self._current_token() == "number" and self._lookahead(1) not in ("rbracket", "colon"):
            return self._parse_multi_select_list()
        return super()._token_nud_lbracket(token)

    def _token_led_dot(self, left: _Raw) -> _Raw:
        if self._current_token() == "star":
            return super()._token_led_dot(left)
        return _join_nodes("subexpression", left, self._parse_dot_rhs(self.BINDING_POWER["dot"]))

    def _token_led_pipe(self, left: _Raw) -> _Raw:
        return _join_nodes("pipe", left, self._expression(self.BINDING_POWER["pipe"]))

    def _token_led_or(self, left: _Raw) -> _Raw:
        return _join_nodes("or_expression", left, self._expression(self.BINDING_POWER["or"]))

    def _token_led_and(self, left: _Raw) -> _Raw:
        return _join_nodes("and_expression", left, self._expression(self.BINDING_POWER["and"]))

    def _token_led_lparen(self, left: _Raw) -> _Raw:
        if left["type"] != "field" or self._lookahead(-2) != "unquoted_identifier":
            message = "Only a name in front of a parenthesis calls a function."
            raise bad(message, self._lookahead_token(-1)["start"])
        arguments: list[_Raw] = []
        if self._current_token() != "rparen":
            arguments = self._read_separated(self._expression)
        self._match("rparen")
        return _note_place(ast.function_expression(left["value"], arguments), left["position"])

    def _read_separated(self, read: Callable[[], _Raw]) -> list[_Raw]:
        found = [read()]
        while self._current_token() == "comma":
            self._advance()
            found.append(read())
        return found

    def _parse_multi_select_hash(self) -> _Raw:
        pairs = self._read_separated(self._pair)
        self._match("rbrace")
        return ast.multi_select_dict(pairs)

    def _pair(self) -> _Raw:
        name = self._lookahead_token(0)["value"]
        self._match_multiple_tokens(["quoted_identifier", "unquoted_identifier"])
        self._match("colon")
        return ast.key_val_pair(name, self._expression())

    def _parse_dot_rhs(self, binding_power: int) -> _Raw:
        token = self._lookahead_token(0)
        node = _note_place(super()._parse_dot_rhs(binding_power), token["start"])
        if token["type"] == "lbracket":
            for item in node["children"]:
                if "bare" in item:
                    raise bad("An element is written a[0], without a dot.", item["position"])
        return node

    def _parse_index_expression(self) -> _Raw:
        start = self._lookahead_token(-1)["start"]
        return _note_place(super()._parse_index_expression(), start)

    def _parse_slice_expression(self) -> _Raw:
        start = self._lookahead_token(-1)["start"]
        bounds: list[int | None] = [None]
        while self._current_token() != "rbracket":
            token = self._lookahead_token(0)
            if token["type"] == "colon" and len(bounds) < 3:
                bounds.append(None)
            elif token["type"] == "number" and bounds[-1] is None:
                bounds[-1] = token["value"]
            else:
                self._raise_parse_error_for_token(token, "")
            self._advance()
        self._advance()
        if bounds[2:] == [0]:
            raise bad("The step of a slice cannot be 0.", start)
        return {"type": "slice", "children": [], "value": (*bounds, None)[:3]}

    def _project_if_slice(self, left: _Raw, right: _Raw) -> _Raw:
        chain = _join_nodes("subexpression", _note_place(left, right["position"]), right)
        if right["type"] != "slice":
            return chain
        return ast.projection(chain, self._parse_projection_rhs(self.BINDING_POWER["star"]))


def _note_place(node: _Raw, position: int) -> _Raw:
    """Note the place and the height of a new node, and of what was made with it.

    Raises:
        ExpressionError: `too_deep`.
    """
    if "height" not in node:
        below = [_note_place(child, position)["height"] for child in node["children"]]
        # A pair is a part of its object.
        node["height"] = max(below, default=0) + (node["type"] != "key_val_pair")
        node["position"] = position
        if node["height"] > MAX_DEPTH:
            raise too_deep(position)
    return node


def _join_nodes(kind: Type, left: _Raw, right: _Raw) -> _Raw:
    """Make `a.b.c` and `a || b || c` one node, so that long ones are not deep."""
    parts: list[_Raw] = right["children"] if right["type"] == kind else [right]
    if left["type"] != kind:
        left = _note_place({"type": kind, "children": [left]}, left["position"])
    height = right["height"] if right["type"] == kind else right["height"] + 1
    if height > MAX_DEPTH:
        raise too_deep(left["position"])
    left["height"] = max(left["height"], height)
    left["children"] += parts
    return left
