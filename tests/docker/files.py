"""What the files for Docker say, read as Docker reads them."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.stacks import ROOT

COMPOSE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?:(?P<kind>:?-)(?P<default>[^}]*))?\})")


def substituted() -> set[str]:
    """The names of the variables that the compose file takes from its environment."""
    return {found["name"] for found in _VARIABLE.finditer(COMPOSE.read_text()) if found["name"]}


def services(**given: str) -> dict[str, dict[str, Any]]:
    """The services of the compose file, with these variables."""

    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        known = given.get(found["name"])
        use_default = known is None or (known == "" and found["kind"] == ":-")
        return found["default"] or "" if use_default else known or ""

    text = _VARIABLE.sub(value, COMPOSE.read_text())
    return yaml.safe_load(text)["services"]


def words(command: str | list[str] | None) -> list[str]:
    """A command of the compose file as the words that are run."""
    return shlex.split(command) if isinstance(command, str) else [*(command or [])]


def is_ours(service: Mapping[str, Any]) -> bool:
    """Return whether a service runs the image that the Dockerfile makes."""
    return service["image"].startswith("vedette:")


def steps() -> list[list[tuple[str, str]]]:
    """The Dockerfile's instructions with their arguments, stage by stage."""
    text = "\n".join(
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")
    ).replace("\\\n", "")
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, text.splitlines()):
        instruction, _, arguments = line.partition(" ")
        if instruction == "FROM":
            stages.append([])
        stages[-1].append((instruction, " ".join(arguments.split())))
    return stages


def copy_context(source: Path, target: Path) -> None:
    """Copy what `.dockerignore` lets through, as `COPY . .` does: the last pattern that fits decides."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]

    def kept(name: str, *, top: bool) -> bool:
        keep = True
        for pattern in patterns:
            anywhere = pattern.startswith("**/")
            if (top or anywhere) and fnmatch.fnmatch(name, pattern.removeprefix("!").removeprefix("**/")):
                keep = pattern.startswith("!")
        return keep

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if not kept(name, top=Path(folder) == source)}

    shutil.copytree(source, target, ignore=left_out, dirs_exist_ok=True)
