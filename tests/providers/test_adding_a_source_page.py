"""docs/adding-a-source.md shows a module and a fixture as they are."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-a-source.md").read_text()


def block(language: str) -> str:
    """The one block of the page in this language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return text


def test_the_module_is_that_of_abuseipdb_with_comments() -> None:
    described, *module = ast.parse((ROOT / "providers" / "ip" / "abuseipdb.py").read_text()).body
    assert isinstance(described, ast.Expr)  # its docstring
    assert [ast.dump(node) for node in ast.parse(block("python")).body] == [ast.dump(node) for node in module]


def test_the_fixture_is_one_of_greynoise() -> None:
    fixture = ROOT / "tests" / "fixtures" / "greynoise" / "ok_with_key.json"
    assert json.loads(block("json")) == json.loads(fixture.read_text())
