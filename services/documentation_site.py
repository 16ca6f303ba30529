"""The site of the documentation, which `make docs` builds: its files, where it is built."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# Not resolved, as in services/documentation.py.
FOLDER = Path(__file__).parent.parent / "dist" / "docs"


class DocumentationSite:
    """The files of a built site; none if the folder does not exist."""

    def __init__(self, folder: Path) -> None:
        """List the files."""
        self._files = {
            path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
        }

    def __bool__(self) -> bool:
        """Return whether the site is built."""
        return "index.html" in self._files

    def find_file(self, name: str) -> Path | None:
        """Return the file of this name within the site; None if it has no such file."""
        return self._files.get(name)

    def find_page(self, name: str) -> str | None:
        """Return the name of the file that shows a page of `docs/`, such as `runs` or `decisions`."""
        names = (f"{name}.html", f"{name.removesuffix('/')}/index.html")
        return next((one for one in names if one in self._files), None)


@cache
def documentation_site() -> DocumentationSite:
    """Return the site of this installation; its files are listed once."""
    return DocumentationSite(FOLDER)
