"""What MkDocs calls while it builds the site."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

from page_markdown import convert, slugify

_ROOT = Path(__file__).resolve().parent.parent
_ICON = _ROOT / "web" / "icon.svg"
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_NOT_SERVED = ("404.html", "sitemap.xml", "sitemap.xml.gz")
_scripts: dict[str, str] = {}
_titles: dict[str, str] = {}


def on_config(config: Any) -> None:
    """Expand `folder/*.md` in the navigation, and make anchors as GitHub makes them."""
    config.mdx_configs["toc"]["slugify"] = slugify
    folder = Path(config.docs_dir)
    for page in (*folder.glob("recipes/*.md"), *folder.glob("*.md")):
        if page.name != "README.md":
            _titles[page.name] = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    config.nav = [entry for entry in (_expand(entry, folder) for entry in config.nav) if entry]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Convert a page of `docs/`."""
    return convert(markdown, page.file.src_uri.count("/"), _titles)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Take each script in the page out into a file, so that the policy allows files alone."""
    base = "../" * page.file.dest_uri.count("/")

    def take_out(found: re.Match[str]) -> str:
        name = f"assets/vedette/{hashlib.sha256(found[1].encode()).hexdigest()[:12]}.js"
        _scripts[name] = found[1]
        return f'<script src="{base}{name}"></script>'

    return _SCRIPT.sub(take_out, output)


def on_post_build(config: Any) -> None:
    """Write the scripts and the pages' Markdown beside the site; remove files that nobody serves."""
    site = Path(config.site_dir)
    for name, text in _scripts.items():
        (site / name).write_text(text, encoding="utf-8")
    shutil.copy(_ICON, site / "assets" / "vedette" / "icon.svg")
    for page in Path(config.docs_dir).rglob("*.md"):
        shutil.copy(page, site / page.relative_to(config.docs_dir))
    for name in _NOT_SERVED:
        (site / name).unlink(missing_ok=True)


def _expand(entry: Any, folder: Path) -> Any:
    """Return an entry of the navigation with all pages of a folder; None if there are none yet."""
    if isinstance(entry, dict):
        [(title, value)] = entry.items()
        if isinstance(value, str) and value.endswith("/*.md"):
            value = sorted(path.relative_to(folder).as_posix() for path in folder.glob(value))
        elif isinstance(value, list):
            value = [one for one in (_expand(one, folder) for one in value) if one]
        return {title: value} if value else None
    return entry
