"""The recipes have one form, and their definitions are without a fault and without a warning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documentation import definitions, pages
from tests.stacks import ROOT

_FOLDER = ROOT / "docs" / "recipes"
RECIPES = sorted(path for path in _FOLDER.glob("*.md") if path.name != "README.md")
_LONGEST = 120
_WRITTEN = re.compile(r"<<'(JSON|YAML)'\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_CLOSING = ("## Limits and pitfalls", "## Both together", "## Differences")


def workflows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the workflows that the shell blocks of a page write into files."""
    for block in pages.read(str(path.relative_to(ROOT))):
        for kind, text in _WRITTEN.findall(block.text) if block.language == "sh" else []:
            document = json.loads(text) if kind == "JSON" else yaml.safe_load(text)
            if "steps" in document:
                yield document


DEFINITIONS = {f"{path.stem}: {one['name']}": one for path in RECIPES for one in workflows(path)}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_short_says_first_what_one_gets_and_at_last_its_limits(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= _LONGEST
    first = text.split("\n\n")[1]
    assert first.startswith(("You get ", "You know ")) and first.endswith(".")
    assert len(re.findall(r"[.!?](?:\s|$)", first)) == 1, "the first paragraph is one sentence"
    assert any(closing in text for closing in _CLOSING)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_of_a_recipe_has_no_fault_and_no_doubt(name: str) -> None:
    found = definitions.faults(_with_ids(DEFINITIONS[name]))
    assert found == []


def _with_ids(document: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with ids in the place of the names that an account would look up."""
    text = json.dumps(document)
    names = r'"(workflow_id|monitor_id)": "(?![0-9a-f]{8}-)[^"]*"'
    return json.loads(re.sub(names, r'"\1": "0199c1f0-7d3a-7000-8000-5a1f00000001"', text))


def test_every_recipe_but_those_of_operators_has_a_definition() -> None:
    without = {path.stem for path in RECIPES if not list(workflows(path))}
    assert without == {"own-postgres-and-temporal", "rotate-keys", "tls-proxy", "upgrade", "verify-webhooks"}
