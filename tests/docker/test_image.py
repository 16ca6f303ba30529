"""The image has what the service needs, and nothing that is nobody else's business."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.docker.conftest import Image
from tests.docker.files import copy_context, steps
from tests.stacks import ROOT

_FINAL = steps()[-1]


def _arguments(instruction: str) -> list[str]:
    return [arguments for name, arguments in _FINAL if name == instruction]


def test_each_stage_begins_with_the_same_image_of_a_full_version() -> None:
    begun = {stage[0][1].partition(" ")[0] for stage in steps()}
    assert len(begun) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", begun.pop())


def test_its_programs_run_as_a_user_who_is_not_root() -> None:
    assert _arguments("USER") == ["10001:10001"]
    made = _arguments("RUN")[0]
    assert "--uid 10001 --gid 10001" in made


def test_packages_are_installed_by_their_hashes_and_never_built() -> None:
    installs = [
        arguments
        for stage in steps()
        for name, arguments in stage
        if name == "RUN" and " install " in arguments
    ]
    assert any("--require-hashes --only-binary :all: -r requirements.lock" in one for one in installs)
    assert not [one for one in installs if "apt-get" in one]


def test_a_command_of_the_image_is_one_of_vedette() -> None:
    assert _arguments("ENTRYPOINT") == ['["vedette"]']


@pytest.mark.long
def test_each_package_and_module_of_the_project_is_in_it(image: Image) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = [Path(*name.split(".")) / "__init__.py" for name in project["packages"]]
    modules = [Path(f"{name}.py") for name in project["py-modules"]]
    missing = [str(path) for path in [*packages, *modules] if not (image.app / path).exists()]
    assert missing == [], "name their folders in .dockerignore"


@pytest.mark.long
def test_each_file_that_the_code_reads_is_in_it(image: Image) -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    files = [path for name, patterns in data.items() for one in patterns
             for path in ROOT.joinpath(*name.split(".")).glob(one)]  # fmt: skip
    files += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").iterdir()]
    assert files
    assert [
        path for path in files if path.is_file() and not (image.app / path.relative_to(ROOT)).exists()
    ] == []


def test_nothing_else_of_the_checkout_is_in_it(tmp_path: Path) -> None:
    checkout, context = tmp_path / "checkout", tmp_path / "context"
    wanted = {"api/app.py", "settings.py", "docs/operations.md", "requirements.lock"}
    unwanted = {
        ".env", ".git/config", ".venv/bin/python", "data/first-account.json", "data/secret.key",
        "secrets/key", "tests/conftest.py", "tests/settings.py", "bench/stack.py", "my.pem",
        "node_modules/x.js", "dump.sql", "api/__pycache__/app.pyc", "requirements-dev.lock",
        "docker-compose.override.yml", "notes/settings.py",
    }  # fmt: skip
    for name in wanted | unwanted:
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    copy_context(checkout, context)
    assert {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()} == wanted


_COMMANDS = {
    "help": "vedette --help",
    "config": "vedette config",
    "validate": "vedette workflows validate /app/examples/visitors.json",
    "openapi": "python -c 'from api.app import create_app; from settings import load; "
    'create_app(load({"DATABASE_URL": "postgresql://nobody"})).openapi()\'',
}


@pytest.mark.long
@pytest.mark.parametrize("command", _COMMANDS.values(), ids=_COMMANDS)
def test_what_needs_no_server_works_without_the_checkout(image: Image, tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        ["sh", "-c", image.here(command)],
        cwd=tmp_path,
        env=image.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_code_that_runs_is_that_of_the_image(image: Image, tmp_path: Path) -> None:
    command = "import settings, cli; print(settings.__file__, cli.__file__)"
    done = subprocess.run(
        [image.venv / "bin" / "python", "-c", command],
        cwd=tmp_path,
        env=image.environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(image.app / "settings.py"), str(image.app / "cli" / "__init__.py")]
