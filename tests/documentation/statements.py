"""Which functions of the models write a status, found in the text of their statements.

A function has the statements in its own text, in the constants and functions that it names, and in the
functions of the database that these call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.stacks import ROOT

BY_PARAMETER = "%"
"""Stands for a status that a statement is given as a parameter."""

_MODELS = ROOT / "models"
_FUNCTION = re.compile(r"create (?:or replace )?function (\w+)\(.*?\$\$(.*?)\$\$", re.DOTALL | re.IGNORECASE)
# Where an f-string has a value.
_HOLE = "{}"
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass
class Node:
    """A function, class or constant of a module, or a function of the database.

    Attributes:
        texts: the strings in it.
        names: the other nodes that it names.
    """

    texts: list[str] = field(default_factory=list[str])
    names: set[str] = field(default_factory=set[str])


@cache
def nodes() -> Mapping[str, Node]:
    """Return all nodes by name: `jobs.completion.finish`, or that of a function of the database."""
    found = {name: Node([text]) for name, text in _database_functions().items()}
    for path in sorted(_MODELS.rglob("*.py")):
        found |= _of_module(path)
    for name, node in found.items():
        words = {word for text in node.texts for word in re.findall(r"\w+", text)}
        node.names = (node.names | words) & found.keys() - {name}
    return found


def full_name(label: str) -> str:
    """Return the name of the one node that a label ends with, as `run_work.claim` does."""
    found = [name for name in nodes() if name == label or name.endswith(f".{label}")]
    assert len(found) == 1, f"{label} is {len(found)} functions of the models: {found}"
    return found[0]


def reach(*names: str) -> set[str]:
    """Return these nodes, those that they name, and so on.

    Raises:
        KeyError: there is no such node.
    """
    seen, new = set[str](), set(names)
    while new:
        seen |= new
        new = {other for one in new for other in nodes()[one].names} - seen
    return seen


def writers(table: str) -> dict[str, set[str]]:
    """Return the nodes in use whose own text writes the column `status` of a table, with its new values."""
    in_use = reach(*(name for name in nodes() if "." in name))
    found = {name: _statuses(nodes()[name], table) for name in sorted(in_use)}
    return {name: statuses for name, statuses in found.items() if statuses}


def _statuses(node: Node, table: str) -> set[str]:
    found: set[str] = set()
    for text in (" ".join(text.split()) for text in node.texts):
        for assigned in re.findall(rf"update {table}(?: \w+)? set (.*?)(?: where | from |$)", text):
            for value in re.findall(r"(?:^|, )status = (case .*? end\b|'\w+'|%|\w+\.\w+)", assigned):
                found |= _values(value)
        for columns, rest in re.findall(
            rf"insert into {table} \(([^)]*)\)(.*?)(?=insert into|update |$)", text
        ):
            if "status" in columns.split(", "):
                found |= set(re.findall(r"'(\w+)'", rest)) or {BY_PARAMETER}
    return found


def _values(value: str) -> set[str]:
    if not value.startswith("case"):
        return {value.strip("'")} if value.startswith("'") else {BY_PARAMETER}
    chosen = re.findall(r"(?:then|else) ('\w+'|\w+\.\w+)", value)
    return {one.strip("'") if one.startswith("'") else BY_PARAMETER for one in chosen if one != "w.status"}


def _database_functions() -> dict[str, str]:
    """Return the text of each function of the database: its file in sql/, else its newest migration's."""
    migrations = sorted((ROOT / "migrations" / "versions").glob("*.py"))
    found = {name: body for path in migrations for name, body in _FUNCTION.findall(path.read_text())}
    files = {path.stem: path.read_text() for path in (ROOT / "sql").glob("*.sql")}
    # A shim has taken the place of the function whose calls it passes on.
    shims = {name.removesuffix(".shim"): files.pop(name) for name in list(files) if name.endswith(".shim")}
    return found | files | shims


def _of_module(path: Path) -> dict[str, Node]:
    tree = ast.parse(path.read_text())
    module = ".".join(path.relative_to(_MODELS).with_suffix("").parts)
    known = {name: f"{module}.{name}" for name, _ in _definitions(tree.body)} | {
        alias.asname or alias.name: f"{node.module}.{alias.name}".removeprefix("models.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {f"{module}.{name}": _node(one, known) for name, one in _definitions(tree.body)}


def _node(definition: _Definition, known: Mapping[str, str]) -> Node:
    node, parts = Node(), list[ast.AST]()
    if isinstance(definition, ast.ClassDef):
        node.names = {f"{known[definition.name]}.{name}" for name, _ in _definitions(definition.body)}
        parts = [
            one for one in definition.body if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    for one in (inner for part in parts or [definition] for inner in ast.walk(part)):
        if isinstance(one, ast.Name):
            node.names.add(known.get(one.id, one.id))
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            node.names.add(f"{known.get(one.value.id, one.value.id)}.{one.attr}")
        elif isinstance(one, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else _HOLE for part in one.values]
            node.texts.append("".join(map(str, parts)))
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            node.texts.append(one.value)
    return node


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, _Definition]]:
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield one.name, one
            if isinstance(one, ast.ClassDef):
                yield from ((f"{one.name}.{name}", inner) for name, inner in _definitions(one.body))
        elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            yield one.targets[0].id, one
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id, one
