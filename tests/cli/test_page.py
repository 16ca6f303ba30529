"""docs/cli.md and the commands of docs/operations.md: what they name is there."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer.main

import cli
from cli.documents import read_document
from models.automations.definitions import validate
from providers.registry import answer_shapes, lookup_fields
from tests.stacks import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def written(page: str) -> list[str]:
    """The commands in a page: lines of blocks, and what stands between backticks."""
    spans = re.findall(r"`(vedette [^`]+)`", page)
    lines = [line for line in page.splitlines() if line.startswith("vedette ")]
    return [text.replace("\\|", "|") for text in dict.fromkeys([*lines, *spans])]


@pytest.mark.parametrize("text", dict.fromkeys([*written(PAGE), *written(OPERATIONS)]))
def test_each_command_and_option_of_the_pages_is_there(text: str) -> None:
    command: Any = typer.main.get_command(cli.app)
    words = shlex.split(text.replace("[", " ").replace("]", " "))[1:]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, text
        command = command.commands[words.pop(0)]
    known = {"--help", *(option for one in command.params for option in one.opts + one.secondary_opts)}
    given = {option.split("=")[0] for word in words for option in word.split("|") if option.startswith("-")}
    assert given - {"-"} <= known, text


def test_the_workflow_of_the_page_is_valid() -> None:
    [text] = re.findall(r"<<'END'\n(.*?)^END", PAGE, re.DOTALL | re.MULTILINE)
    document = read_document("page", text.encode())
    report = validate(document.value, None, lookup_fields=lookup_fields(), answers=answer_shapes())
    assert not report.errors and not report.warnings
