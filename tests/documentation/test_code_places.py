"""What pages for builders say is in a file of the code is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.documentation import is_for_builders
from tests.documentation.pages import PAGES
from tests.stacks import ROOT

BUILDERS = [
    page for page in PAGES if page == "CONTRIBUTING.md" or is_for_builders(page.removeprefix("docs/")[:-3])
]
_FILE = re.compile(r"`((?:[a-z_]+/)+\w+\.(?:py|sql|toml))(?:: (\w+))?`")
_PLACE = re.compile(r"`([a-z_]+\.py|(?:[a-z_]+/)+(?:\w+\.py)?)` \|")
_MOST_WORDS = 60


@pytest.mark.parametrize("page", BUILDERS)
def test_each_file_that_the_page_names_is_there(page: str) -> None:
    files = _FILE.findall((ROOT / page).read_text())
    assert [file for file, name in files if not has(ROOT / file, name)] == []


def test_each_row_of_the_threat_model_names_tests() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text()
    rows = [line for line in page.partition("## Assets")[2].splitlines() if line.startswith("| ")][2:]
    untested = [row.split(" | ")[0] for row in rows if not _FILE.search(row.rpartition(" | ")[2])]
    assert len(rows) > 20 and untested == []


def has(path: Path, name: str) -> bool:
    """Tell whether there is such a file, and in it such a name if one is given."""
    return path.exists() and (not name or re.search(rf"\b{name}\b", path.read_text()) is not None)


def test_the_glossary_has_one_line_a_word_in_order_and_a_place_for_each() -> None:
    lines = [
        line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")
    ]
    words = [line.split(" | ")[0] for line in lines[2:]]
    assert words == sorted(set(words), key=str.casefold)
    assert len(words) <= _MOST_WORDS
    places = [found[1] for line in lines[2:] if (found := _PLACE.search(line))]
    assert len(places) == len(words) and all((ROOT / place).exists() for place in places)
