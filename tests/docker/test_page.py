"""What docs/docker.md tells people to type is there to be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docker.files import services
from tests.stacks import ROOT, vedette

_PAGE = (ROOT / "docs" / "docker.md").read_text()
_SERVICES = services()
_COMMANDS = sorted(set(re.findall(r"docker compose [^`\n]+", _PAGE)))
_FOR_SERVICES = {"up", "run", "exec", "stop", "build", "logs"}
# With a value of their own.
_VALUED = {"--scale"}


def _words(command: str) -> tuple[str, list[str]]:
    """The subcommand of Compose, and what stands behind its options."""
    subcommand, *rest = shlex.split(re.split(r" [<>|] ?", command)[0])[2:]
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in _VALUED else 1 :]
    return subcommand, rest


@pytest.mark.parametrize("command", _COMMANDS)
def test_each_service_that_a_command_names_is_there(command: str) -> None:
    subcommand, rest = _words(command)
    if subcommand in _FOR_SERVICES:
        named = rest[:1] if subcommand in ("run", "exec") else rest
        assert [name for name in named if name not in _SERVICES] == []


@pytest.mark.parametrize("command", [one for one in _COMMANDS if " api vedette " in one])
def test_each_command_of_vedette_in_a_container_is_there(command: str, tmp_path: Path) -> None:
    _, (_, *line) = _words(command)
    assert line[0] == "vedette"
    done = vedette(tmp_path, *line[1:3], "--help", COLUMNS="200")
    assert done.returncode == 0
    assert [word for word in line if word.startswith("--") and word not in done.stdout] == []


def test_each_service_is_in_its_table() -> None:
    rows = [line.split("|")[1] for line in _PAGE.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == _SERVICES.keys()


def test_each_file_that_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", _PAGE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
