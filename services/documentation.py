"""The pages of `docs/` for readers over HTTP or MCP: their list, their text, and a search.

They are read from the folder beside the code, with its folders: that of a checkout, or of an installation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from services.section_index import Section, SectionIndex, plain, shorten_text

# Not resolved: the user may be able to reach the folder only by the path that led to the code.
FOLDER = Path(__file__).parent.parent / "docs"

_SUMMARY = 240
# These pages are for developers of the service; the others are for its users.
_FOR_BUILDERS = frozenset(
    {"adding-a-source", "architecture", "benchmarks", "debugging", "dependencies", "glossary", "threat-model"}
)
_BUILDERS_FOLDER = "decisions/"
# Recipes say a little of everything: the pages that explain a thing come first.
_RECIPES_FOLDER = "recipes/"

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_BLOCK = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1.*?$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
_PROSE = re.compile(r"^[A-Za-z*`\[].*(?:\n.+)*", re.MULTILINE)
_LINK_UP = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\./[^()\s]*)\)")


class DocumentationMissing(RuntimeError):
    """The folder of the pages is missing or empty: the installation is incomplete."""


class Page(NamedTuple):
    """A page: its name (the path of its file, without `.md`), its heading, and its first sentence."""

    name: str
    title: str
    summary: str


class Hit(NamedTuple):
    """A section that a search found.

    Attributes:
        page: the name of its page.
        headings: its heading and those above it, from the page's down (`Workflows › Steps › Wait`).
        anchor: of the section within the page.
        excerpt: its best matching paragraph, shortened to about 300 characters, without markup.
        score: higher is better; comparable within one search only.
    """

    page: str
    heading: str
    anchor: str
    excerpt: str
    score: float


class Documentation:
    """The pages of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the pages.

        Raises:
            DocumentationMissing: there are no pages.
        """
        files = sorted(folder.rglob("*.md"))
        if not files:
            raise DocumentationMissing(
                f"The documentation was expected in {folder}, where no page (*.md) is. Install vedette anew, "
                "or copy the folder docs of its source there."
            )
        self._texts = {
            file.relative_to(folder).with_suffix("").as_posix(): file.read_text("utf-8") for file in files
        }
        self._sections = [one for name, text in self._texts.items() for one in _sections(name, text)]

    @cached_property
    def _index(self) -> SectionIndex:
        return SectionIndex(self._sections)

    @cached_property
    def _pages(self) -> list[Page]:
        titles = {section.page: section.headings[0] for section in reversed(self._sections)}
        return [Page(name, titles[name], _summary(text)) for name, text in self._texts.items()]

    def pages(self) -> list[Page]:
        """Return all pages, by name."""
        return list(self._pages)

    def read_page(self, name: str, anchor: str | None = None) -> str | None:
        """Return the Markdown of a page, or of one section with those below it; None if it does not exist.

        Links that lead out of the folder are reduced to their text, because the service does not serve their
        targets.
        """
        if anchor is None:
            text = self._texts.get(name)
        else:
            of_page = [section for section in self._sections if section.page == name]
            first = next((number for number, one in enumerate(of_page) if one.anchor == anchor), None)
            text = None if first is None else _with_those_below(of_page[first:])
        return None if text is None else _without_links_out(name, text)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return the sections that match the words of `query` best, best first; the first search takes 0.1 s.

        Args:
            query: words in any order; only the first 200 characters and 16 words are read.
            limit: the most sections, from 1 to 20.
        """
        return [
            Hit(section.page, " › ".join(section.headings), section.anchor, excerpt, score)
            for section, excerpt, score in self._index.search(query, limit)
        ]


@cache
def documentation() -> Documentation:
    """Return the documentation of this installation, read once.

    Raises:
        DocumentationMissing: the folder is missing or empty.
    """
    return Documentation(FOLDER)


def is_for_builders(name: str) -> bool:
    """Tell whether a page is for those who build the service, rather than for those who use it."""
    return name in _FOR_BUILDERS or name.startswith(_BUILDERS_FOLDER)


def pages() -> list[Page]:
    """Return all pages, by name."""
    return documentation().pages()


def read_page(name: str, anchor: str | None = None) -> str | None:
    """Return the Markdown of a page or of one section; see `Documentation.read`."""
    return documentation().read_page(name, anchor)


def search(query: str, limit: int = 5) -> list[Hit]:
    """Return the sections that match best; see `Documentation.search`."""
    return documentation().search(query, limit)


def _sections(page: str, text: str) -> Iterator[Section]:
    """Split a page at its headings, ignoring fenced blocks."""
    weight = 0.6 if is_for_builders(page) or page.startswith(_RECIPES_FOLDER) else 1.0
    headings: dict[int, str] = {}
    anchors: Counter[str] = Counter()
    anchor, fence = "", ""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        marks = _FENCE.match(line)
        if marks and (not fence or marks[1].startswith(fence)):
            fence = "" if fence else marks[1]
        heading = None if fence else _HEADING.match(line)
        if heading:
            if lines:
                yield Section(page, tuple(headings.values()) or (page,), anchor, "".join(lines), weight)
            lines = []
            level, title = len(heading[1]), plain(heading[2])
            headings = {above: other for above, other in headings.items() if above < level} | {level: title}
            anchor = _anchor(title, anchors)
        lines.append(line)
    yield Section(page, tuple(headings.values()) or (page,), anchor, "".join(lines), weight)


def _without_links_out(page: str, text: str) -> str:
    """Return the text of a page; of links that lead out of the folder of all pages, only their words."""
    out = "../" * (page.count("/") + 1)
    return _LINK_UP.sub(lambda link: link[1] if link[2].startswith(out) else link[0], text)


def _anchor(heading: str, seen: Counter[str]) -> str:
    """Return the anchor that GitHub and most Markdown renderers assign to a heading."""
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    seen[slug] += 1
    return slug if seen[slug] == 1 else f"{slug}-{seen[slug] - 1}"


def _with_those_below(sections: list[Section]) -> str:
    """Return the text of the first section and of its subsections."""
    depth = len(sections[0].headings)
    after = (n for n, one in enumerate(sections) if n and len(one.headings) <= depth)
    return "".join(section.text for section in sections[: next(after, None)])


def _summary(text: str) -> str:
    """Return the first sentence of a page."""
    prose = _PROSE.search(_BLOCK.sub("", text))
    told = plain(prose[0]) if prose else ""
    sentence = re.match(r".+?\.(?=\s|$)", told)
    return shorten_text(sentence[0] if sentence else told, _SUMMARY)
