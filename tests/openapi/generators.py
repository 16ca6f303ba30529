"""The client generators, and what checks the document: their versions do not go with those of ours."""

from __future__ import annotations

from pathlib import Path

from tests.pinned_packages import npm_packages, python_packages

HERE = Path(__file__).parent
TYPESCRIPT = HERE / "typescript"
REDOCLY = HERE / "redocly"
SPECTRAL = HERE / "spectral"
PYTHON_LOCK = HERE / "openapi-python-client.lock"


def openapi_python_client() -> Path:
    """A virtual environment with openapi-python-client; `bin/python` is its interpreter."""
    return python_packages(PYTHON_LOCK)


def openapi_typescript() -> Path:
    """The `node_modules` with openapi-typescript and TypeScript."""
    return npm_packages(TYPESCRIPT / "package-lock.json")


def redocly() -> Path:
    """The program `redocly`, to be run by node."""
    return npm_packages(REDOCLY / "package-lock.json") / "@redocly" / "cli" / "bin" / "cli.js"


def spectral() -> Path:
    """The program `spectral`, to be run by node."""
    packages = npm_packages(SPECTRAL / "package-lock.json")
    return packages / "@stoplight" / "spectral-cli" / "dist" / "index.js"
