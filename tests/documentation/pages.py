"""The pages of the documentation, cut into their fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.stacks import ROOT

PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
"""Every page, by its path in the project."""

_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<marks>```+|~~~+)(?P<info>.*)$")


class PageError(Exception):
    """A page that cannot be read as one."""


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: the page's path in the project.
        line: that of its opening fence.
        language: the first word behind the fence.
        role: the rest behind it, such as `answer`.
        text: what stands in it.
        adjoins: whether nothing but empty lines stands between it and the block before.
    """

    page: str
    line: int
    language: str
    role: str
    text: str
    adjoins: bool

    @property
    def place(self) -> str:
        """Return where it is, as editors read it."""
        return f"{self.page}:{self.line}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it in a table of exceptions: page, language and first line, with single spaces."""
        return self.page, self.language, " ".join(self.text.strip().partition("\n")[0].split())


@dataclass
class _Open:
    marks: str
    indent: str
    info: str
    line: int
    adjoins: bool
    lines: list[str] = field(default_factory=list[str])


def blocks(page: str, text: str) -> list[Block]:
    """All fenced blocks of a page, in order.

    Raises:
        PageError: a block has no end.
    """
    found: list[Block] = []
    opened: _Open | None = None
    adjoins = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is not None:
            if fence and fence["marks"].startswith(opened.marks) and not fence["info"].strip():
                language, _, role = opened.info.strip().partition(" ")
                content = "".join(f"{one.removeprefix(opened.indent)}\n" for one in opened.lines)
                found.append(Block(page, opened.line, language, role.strip(), content, opened.adjoins))
                opened, adjoins = None, True
            else:
                opened.lines.append(line)
        elif fence:
            opened = _Open(fence["marks"], fence["indent"], fence["info"], number, adjoins)
        elif line.strip():
            adjoins = False
    if opened is not None:
        raise PageError(f"{page}:{opened.line}: the block has no end")
    return found


def read(page: str) -> list[Block]:
    """All fenced blocks of one of `PAGES`."""
    return blocks(page, (ROOT / page).read_text(encoding="utf-8"))
