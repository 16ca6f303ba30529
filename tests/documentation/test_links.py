"""Every link between pages leads somewhere, and every page is reachable from the README."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.documentation.pages import PAGES
from tests.stacks import ROOT

_FENCED = re.compile(r"^( {0,3})(```+|~~~+).*?^\1?\2\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_FOREIGN = re.compile(r"[a-z][a-z0-9+.-]*:")


class Link(NamedTuple):
    """A link to a file of the project, and to a heading in it if it names one."""

    page: str
    target: str

    @property
    def file(self) -> Path:
        """The file that it leads to."""
        name = self.target.partition("#")[0]
        return (ROOT / self.page).parent / name if name else ROOT / self.page

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]


def text_of(path: Path) -> str:
    """The text of a page without its fenced blocks."""
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for heading in _HEADING.findall(text_of(path)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(page: str) -> Iterator[Link]:
    """The links of a page that stay within the project."""
    text = _CODE.sub(lambda code: "x" * len(code[0]), text_of(ROOT / page))
    for target in _LINK.findall(text):
        if not _FOREIGN.match(target) and not target.startswith("/"):
            yield Link(page, target)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading_of_the_project(page: str) -> None:
    dead = [link.target for link in links(page) if not link.file.exists()]
    assert not dead
    lost = [link.target for link in links(page) if link.anchor and link.anchor not in anchors(link.file)]
    assert not lost


def test_every_page_is_reachable_from_the_readme() -> None:
    reached, new = set[str](), {"README.md"}
    while new:
        reached |= new
        targets = {link.file.resolve() for page in new for link in links(page)}
        new = {
            str(target.relative_to(ROOT)) for target in targets if target.suffix == ".md" and target.exists()
        } - reached
    assert set(PAGES) - reached == set()


def test_every_page_of_the_documentation_is_linked_in_the_readme_or_the_index_of_its_folder() -> None:
    linked = {str(link.file.resolve().relative_to(ROOT)) for link in links("README.md")}
    of_folders = [page for page in PAGES if page.startswith("docs/") and page.endswith("/README.md")]
    linked |= {str(link.file.resolve().relative_to(ROOT)) for page in of_folders for link in links(page)}
    assert {page for page in PAGES if page.startswith("docs/")} - linked == set()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_begins_with_it(page: str) -> None:
    text = text_of(ROOT / page)
    assert text.startswith("# ")
    assert len(re.findall("^# ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", [page for page in PAGES if re.fullmatch(r"docs/[\w-]+\.md", page)])
def test_a_page_begins_with_what_it_is_for_and_for_whom(page: str) -> None:
    opening = text_of(ROOT / page).split("\n\n")[1].replace("\n", " ")
    assert re.match(r"(After this page|This page lists|You can) ", opening), opening
    assert "It is for " in opening


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
