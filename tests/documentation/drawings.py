"""Pictures of the drawings of all pages, for the site, which runs no script of mermaid's: `make drawings`.

A picture is named by the text that it shows, so that a drawing that changes has none until it is drawn again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from playwright.async_api import Page

from docsite.page_markdown import diagram_name
from tests.dashboard.browsing import launched
from tests.documentation import pages
from tests.documentation.pages import Block
from tests.pinned_packages import npm_packages
from tests.stacks import ROOT

FOLDER = ROOT / "docs" / "images" / "diagrams"
_LOCK = Path(__file__).parent / "mermaid" / "package-lock.json"
_THEMES = {"light": "neutral", "dark": "dark"}
_DRAW = """async ([text, theme]) => {
  mermaid.initialize({ startOnLoad: false, theme, deterministicIds: true, htmlLabels: false,
    flowchart: { htmlLabels: false }, fontFamily: "system-ui, sans-serif", securityLevel: "strict" });
  return (await mermaid.render("drawing", text)).svg;
}"""


def find_drawings() -> Iterator[Block]:
    """Yield the drawings of all pages of the documentation."""
    for page in (one for one in pages.PAGES if one.startswith("docs/")):
        yield from (block for block in pages.read(page) if block.language == "mermaid")


def pictures_of(drawing: Block) -> dict[str, Path]:
    """Return the files of a drawing's pictures, by their colours."""
    return {colours: FOLDER / f"{diagram_name(drawing.text)}-{colours}.svg" for colours in _THEMES}


async def draw(page: Page, drawing: Block) -> None:
    """Write the pictures of a drawing."""
    for colours, file in pictures_of(drawing).items():
        svg: str = await page.evaluate(_DRAW, [drawing.text, _THEMES[colours]])
        width, height = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', svg).groups()
        svg = svg.replace('width="100%"', f'width="{width}" height="{height}"', 1)
        file.write_text(svg + "\n", encoding="utf-8")
        print(f"{file.name}: {drawing.place}, {len(svg):,} bytes")


async def main() -> None:
    """Draw all, and remove the pictures of drawings that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    script = npm_packages(_LOCK) / "mermaid" / "dist" / "mermaid.min.js"
    found = list(find_drawings())
    for file in set(FOLDER.glob("*.svg")) - {file for one in found for file in pictures_of(one).values()}:
        file.unlink()
    async with launched() as browser:
        page = await browser.new_page()
        await page.add_script_tag(path=script)
        for drawing in found:
            await draw(page, drawing)


if __name__ == "__main__":
    asyncio.run(main())
