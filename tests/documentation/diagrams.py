"""The drawings of a page: mermaid's states and sequences, as far as pages use them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.documentation import pages
from tests.documentation.pages import Block
from tests.stacks import ROOT

_EDGE = re.compile(r"(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: (.*))?")
_GROUP = re.compile(r"state (\w+) \{")
_MESSAGE = re.compile(r"\w+-?->>\w+: (.*)")
_NAME = re.compile(r"(?<![\w.])(?:\w+\.)+\w+(?![\w.])|\b\w+_\w+\b")
OUTSIDE = "[*]"


@dataclass(frozen=True)
class Edge:
    """A transition of a state diagram: from where, to where, and by which functions."""

    source: str
    target: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class States:
    """A state diagram.

    Attributes:
        names: all states but the outside.
        within: the states of each group.
    """

    names: frozenset[str]
    edges: tuple[Edge, ...]
    within: dict[str, frozenset[str]]


def of_kind(page: str, kind: str) -> list[Block]:
    """Return the drawings of a page that begin with this word, in order."""
    drawings = [block for block in pages.read(page) if block.language == "mermaid"]
    return [block for block in drawings if block.text.split()[0] == kind]


def states(block: Block) -> States:
    """Read a state diagram; a label that begins with a number names a row of a table of its page."""
    names, edges, groups, group = set[str](), list[Edge](), dict[str, set[str]](), ""
    for line in map(str.strip, block.text.splitlines()[1:]):
        if opened := _GROUP.fullmatch(line):
            group = opened[1]
            names.add(group)
            groups[group] = set()
        elif line == "}":
            group = ""
        elif line:
            edge = _EDGE.fullmatch(line)
            assert edge, f"{block.place}: neither a transition nor a group: {line}"
            ends = {edge[1], edge[2]} - {OUTSIDE}
            names |= ends
            if group:
                groups[group] |= ends
            edges.append(Edge(edge[1], edge[2], _functions(block, edge[3] or "")))
    return States(frozenset(names), tuple(edges), {name: frozenset(some) for name, some in groups.items()})


def called(block: Block) -> set[str]:
    """Return the functions that the messages of a sequence name."""
    lines = map(str.strip, block.text.splitlines())
    messages = [found[1] for line in lines if (found := _MESSAGE.fullmatch(line))]
    assert messages, f"{block.place}: no message"
    return {name for message in messages for name in _NAME.findall(re.sub(r"\(.*?\)", "", message))}


def _functions(block: Block, label: str) -> tuple[str, ...]:
    if re.match(r"\d", label):
        page = (ROOT / block.page).read_text()
        row = re.search(rf"^\| {label} \| (.*?) \|", page, re.MULTILINE)
        assert row, f"{block.place}: no table has a row `{label}`"
        return tuple(re.findall(r"`([\w.]+)`", row[1]))
    return tuple(name for name in label.split(", ") if name)
