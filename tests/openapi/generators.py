"""The client generators, each with exactly the packages that its lock file names, made once for a user.

They are no part of the virtual environment: what they depend on does not go with what the service needs.
"""

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

HERE = Path(__file__).parent
TYPESCRIPT = HERE / "typescript"
PYTHON_LOCK = HERE / "openapi-python-client.lock"


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a program to its end and give its output; one that fails is an assertion error."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def _made_once(lock: Path, make: Callable[[Path], None]) -> Path:
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


def openapi_python_client() -> Path:
    """A virtual environment with openapi-python-client; `bin/python` is its interpreter."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        run(
            sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet",
            "--disable-pip-version-check", "--require-hashes", "--requirement", PYTHON_LOCK,
        )  # fmt: skip

    return _made_once(PYTHON_LOCK, make)


def openapi_typescript() -> Path:
    """A folder whose `node_modules` has openapi-typescript and TypeScript. Without npm the test skips."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")

    def make(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(TYPESCRIPT / name, folder)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)

    return _made_once(TYPESCRIPT / "package-lock.json", make)
