"""Packages beside the virtual environment: those that a lock file names, installed once for a user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest


def run(*command: str | Path, cwd: Path | None = None, given: str = "", **environment: str) -> str:
    """Run a program to its end, with this on its standard input, and give its output.

    One that fails is an assertion error.
    """
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, input=given, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def made_once(lock: Path, make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills for this lock file, in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = Path(home) / "vedette" / "generators" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            made = Path(unfinished) / "made"
            make(made)
            with contextlib.suppress(OSError):  # another run of the tests was faster
                made.rename(folder)
    return folder


def python_packages(lock: Path) -> Path:
    """A virtual environment with the packages of a lock file; `bin/python` is its interpreter."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        run(
            sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet",
            "--disable-pip-version-check", "--require-hashes", "--requirement", lock,
        )  # fmt: skip

    return made_once(lock, make)


def npm_packages(lock: Path) -> Path:
    """The `node_modules` that a package-lock.json names. Without npm the test skips."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")

    def make(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(lock.with_name(name), folder)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)

    return made_once(lock, make) / "node_modules"
