"""Pages as Material for MkDocs reads them: tabs for languages, titles for answers, pictures for drawings.

In `docs/` the same pages are plain Markdown, which GitHub, editors and agents show as it stands.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

_FENCE = re.compile(
    r"^```(?P<language>\w+)(?: (?P<role>[^\n]+))?\n(?P<text>.*?)^```$\n?", re.MULTILINE | re.DOTALL
)
_LINK_OUT = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?:\.\./)[^()\s]*\)")
_PICTURE = re.compile(r'<picture><source [^>]*srcset="([^"]+)"><img alt="([^"]*)" src="([^"]+)"></picture>')
_LINK_BY_FILE = re.compile(r"\[(?:[\w-]+/)?([\w-]+)\.md\]\(([^()\s#]*\.md)(#[^()\s]*)?\)")
_CELL_CODE = re.compile(r"`[^`\n]*`")
_TITLES = {"answer": "Answer", "output": "Output"}
_TOOL = "tool "


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words behind it, and its text."""

    language: str
    role: str
    text: str

    @property
    def tab(self) -> str | None:
        """Return the name of its tab; None if it is none of several ways to do the same."""
        if self.language == "json" and self.role.startswith(_TOOL):
            return "MCP"
        if self.role:
            return None
        if self.language == "sh":
            return "CLI" if re.search(r"^vedette ", self.text, re.MULTILINE) else "curl"
        return {"python": "Python", "js": "JavaScript", "go": "Go"}.get(self.language)

    def to_markdown(self) -> str:
        """Return the block with its role as a title."""
        title = self.role.removeprefix(_TOOL) if self.tab == "MCP" else _TITLES.get(self.role, self.role)
        shown = f' title="{title}"' if title else ""
        return f"```{self.language}{shown}\n{self.text}```\n"


def convert(text: str, depth: int, titles: Mapping[str, str]) -> str:
    """Return a page of `docs/` as the site shows it.

    Args:
        text: the page's Markdown.
        depth: how many folders below `docs/` it is.
        titles: the name of a file, such as `runs.md` → the title of its page.
    """
    parts: list[str | Block] = []
    end = 0
    for found in _FENCE.finditer(text):
        prose = _convert_prose(text[end : found.start()], depth, titles)
        parts += [prose, Block(found[1], found[2] or "", found[3])]
        end = found.end()
    parts.append(_convert_prose(text[end:], depth, titles))
    return "".join(_write_blocks(parts, depth))


def diagram_name(drawing: str) -> str:
    """Return the name of a drawing's pictures in docs/images/diagrams, without `-light.svg`."""
    return hashlib.sha256(drawing.strip().encode()).hexdigest()[:12]


def slugify(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub and the service make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def _write_blocks(parts: list[str | Block], depth: int) -> list[str]:
    """Return the parts, with blocks that stand together and differ in their tabs as a set of tabs."""
    said = [part for part in parts if isinstance(part, Block) or part.strip()]
    written: list[str] = []
    for is_block, group in groupby(said, key=lambda part: isinstance(part, Block)):
        if not is_block:
            written += [part for part in group if isinstance(part, str)]
            continue
        written.append("\n")
        for tabs in _group_by_tabs([part for part in group if isinstance(part, Block)]):
            written.append(_write_tabs(tabs) if len(tabs) > 1 else _write_block(tabs[0], depth))
    return written


def _group_by_tabs(blocks: list[Block]) -> list[list[Block]]:
    """Return the blocks in groups of tabs with different names; what is no tab stands alone."""
    groups: list[list[Block]] = []
    for block in blocks:
        last = groups[-1] if groups else []
        names = {one.tab for one in last}
        if block.tab and last and None not in names and block.tab not in names:
            last.append(block)
        else:
            groups.append([block])
    return groups


def _write_tabs(blocks: list[Block]) -> str:
    written: list[str] = []
    for block in blocks:
        lines = (f"    {line}".rstrip() for line in block.to_markdown().splitlines())
        written.append(f'=== "{block.tab}"\n\n' + "\n".join(lines) + "\n")
    return "\n" + "\n".join(written) + "\n"


def _write_block(block: Block, depth: int) -> str:
    if block.language != "mermaid":
        return f"\n{block.to_markdown()}\n"
    at = f"{'../' * depth}images/diagrams/{diagram_name(block.text)}"
    kind = "States" if block.text.startswith("state") else "Drawing"
    return f"\n![{kind}]({at}-light.svg#only-light)![{kind}]({at}-dark.svg#only-dark)\n\n"


def _convert_prose(text: str, depth: int, titles: Mapping[str, str]) -> str:
    """Return text with pictures for both colours, titles in links, and no links to files of the source."""
    text = _PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", text)
    out = "../" * (depth + 1)
    text = _LINK_OUT.sub(lambda link: link[1] if f"]({out}" in link[0] else link[0], text)

    def name_by_title(link: re.Match[str]) -> str:
        title = titles.get(f"{link[1]}.md")
        return f"[{title}]({link[2]}{link[3] or ''})" if title else link[0]

    text = _LINK_BY_FILE.sub(name_by_title, text)
    rows = (
        _CELL_CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in text.split("\n")
    )
    return "\n".join(rows)
