"""Programs of the system that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def find_program(*names: str, path: str | None = None) -> str:
    """Return the first of these programs. Without any the test skips, but fails in CI, which has them."""
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    assert not os.environ.get("CI"), (
        f"{names[0]} is not installed: the script or the workflow of CI does that"
    )
    pytest.skip(f"{names[0]} is not installed")
