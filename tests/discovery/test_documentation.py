"""The pages of the documentation as the service has them, and the search over their sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services import documentation
from services.documentation import Documentation, DocumentationMissing, Page

FOLDER = Path(__file__).resolve().parents[2] / "docs"

WATERING = """# Watering

Plants want water, says `water.py`. Nobody knows
how much.

## By hand

Fill a [can](cans.md#sizes), or see [the code](../garden/can.py).

```sh
# not a heading
can --fill
```

### In the evening

Evenings are best for tomatoes.

## By machine

| Part | What |
| --- | --- |
| `pump_rate` | litres an hour |
| `hose` | where water runs |

## By hand

Once more.
"""
CANS = """# Cans

```text
A picture of a can.
```

## Sizes

Cans have three sizes: small, large and watering.
"""


@pytest.fixture
def garden(tmp_path: Path) -> Documentation:
    (tmp_path / "watering.md").write_text(WATERING)
    (tmp_path / "cans.md").write_text(CANS)
    (tmp_path / "schema.json").write_text("{}")
    return Documentation(tmp_path)


def found(garden: Documentation, query: str) -> list[str]:
    return [f"{hit.page}#{hit.anchor}" for hit in garden.search(query)]


def test_a_page_has_the_name_of_its_file_its_heading_and_its_first_sentence(garden: Documentation) -> None:
    assert garden.pages() == [
        Page("cans", "Cans", "Cans have three sizes: small, large and watering."),
        Page("watering", "Watering", "Plants want water, says water.py."),
    ]


@pytest.mark.parametrize(
    "name", ["roses", "", "../watering", "watering.md", "WATERING", "schema", "/etc/passwd"]
)
def test_what_is_no_page_is_not_read(garden: Documentation, name: str) -> None:
    assert garden.read_page(name) is None


def test_of_a_link_that_leaves_the_folder_only_the_text_is_given(garden: Documentation) -> None:
    assert "Fill a [can](cans.md#sizes), or see the code." in (garden.read_page("watering") or "")


def test_a_page_of_a_folder_has_its_path_as_name_and_keeps_links_within_the_documentation(
    tmp_path: Path,
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "hoses.md").write_text("# Hoses\n\nSee [cans](../cans.md), [code](../../can.py).\n")
    assert Documentation(tmp_path).read_page("tools/hoses") == "# Hoses\n\nSee [cans](../cans.md), code.\n"


def test_a_section_is_read_with_those_below_it(garden: Documentation) -> None:
    text = garden.read_page("watering", "by-hand") or ""
    assert text.startswith("## By hand\n")
    assert "# not a heading" in text
    assert text.endswith("Evenings are best for tomatoes.\n\n")


@pytest.mark.parametrize(
    ("anchor", "text"),
    [
        ("in-the-evening", "### In the evening\n\nEvenings are best for tomatoes.\n\n"),
        ("by-hand-1", "## By hand\n\nOnce more.\n"),
        ("not-a-heading", None),
        ("sizes", None),
    ],
)
def test_a_section_is_found_by_the_anchor_that_markdown_gives_it(
    garden: Documentation, anchor: str, text: str | None
) -> None:
    assert garden.read_page("watering", anchor) == text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("tomato", "watering#in-the-evening"),
        ("evenings best", "watering#in-the-evening"),
        ("pump_rate", "watering#by-machine"),
        ("the rate of the pumps", "watering#by-machine"),
        ("size of a can", "cans#sizes"),
        ("fill can", "watering#by-hand"),
        ("WATERING", "watering#watering"),
    ],
)
def test_the_section_that_fits_best_comes_first(garden: Documentation, query: str, first: str) -> None:
    assert found(garden, query)[0] == first


@pytest.mark.parametrize("query", ["", "  ", "the and of", "zucchini", "?!…", "\x00"])
def test_a_query_that_nothing_fits_finds_nothing(garden: Documentation, query: str) -> None:
    assert found(garden, query) == []


def test_a_hit_says_where_it_stands_and_shows_the_paragraph_that_fits(garden: Documentation) -> None:
    hit, *_ = garden.search("pump rate")
    assert (hit.page, hit.heading) == ("watering", "Watering › By machine")
    assert hit.excerpt == "pump_rate | litres an hour"


def test_an_excerpt_of_a_long_paragraph_begins_shortly_before_the_word(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text(f"# Long\n\n{'much ' * 200}needle {'more ' * 200}\n")
    excerpt = Documentation(tmp_path).search("needle")[0].excerpt
    assert "needle" in excerpt
    assert excerpt.startswith("… much")
    assert excerpt.endswith("more …")
    assert len(excerpt) < 310


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (0, 1), (-5, 1), (1000, 20)])
def test_a_search_gives_as_many_as_asked_but_between_1_and_20(tmp_path: Path, limit: int, count: int) -> None:
    (tmp_path / "a.md").write_text("".join(f"## Part {n}\n\nsame\n" for n in range(30)))
    assert len(Documentation(tmp_path).search("same", limit)) == count


def test_what_is_beyond_the_bound_of_a_query_is_not_read(garden: Documentation) -> None:
    assert found(garden, "x" * 200 + " tomato") == []
    assert found(garden, " ".join(f"w{n}" for n in range(16)) + " tomato") == []


def test_a_folder_without_pages_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DocumentationMissing, match=re.escape(str(tmp_path)) + ".*copy the folder docs"):
        Documentation(tmp_path)


def test_all_pages_of_the_folder_are_served_with_a_title_and_a_summary() -> None:
    pages = documentation.pages()
    names = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md")}
    assert {page.name for page in pages} == names
    assert not [page.name for page in pages if not page.title or len(page.summary) < 10]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("verify the signature of a webhook", "webhooks"),
        ("retry a run that failed", "runs"),
        ("wait for an approval", "workflows"),
        ("for_each", "workflows"),
        ("scopes of an API key", "security"),
        ("columns of a csv upload", "uploads"),
        ("VEDETTE_ALLOW_PRIVATE_NETWORKS", "webhooks"),
        ("how is a cron read in a time zone", "calendars"),
    ],
)
def test_a_question_is_answered_among_the_first_three(query: str, page: str) -> None:
    assert page in [hit.page for hit in documentation.search(query, 3)]


@pytest.mark.parametrize("file", ["CHANGELOG.md", "SECURITY.md"])
def test_links_of_the_changelog_and_the_security_policy_lead_to_what_there_is(file: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#([^)]+))?\)", (FOLDER.parent / file).read_text())
    assert links
    for path, anchor in links:
        assert (FOLDER.parent / path).exists(), path
        if anchor:
            assert documentation.read_page(Path(path).stem, anchor), f"{path}#{anchor}"
