"""The name of the code that this process runs: a fault of one build need not affect another."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

# The packages that execute runs.
_PACKAGES = (
    "activities", "engine", "execution", "language", "models", "outbound", "providers", "services",
    "temporal", "workflows",
)  # fmt: skip


def name_build(folder: Path) -> str:
    """Return the version and a digest of the modules in a folder, independent of the folder's path.

    Raises:
        OSError: a module cannot be read.
    """
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('vedette')}+{digest.hexdigest()[:16]}"
