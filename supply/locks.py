"""The lock files, read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "requirements.lock"
EXPORT = ROOT / "requirements-otel.lock"
"""The packages that export traces: the image has them too."""

DEVELOPMENT = ROOT / "requirements-dev.lock"
"""The packages of both, and those that tests and checks need."""

DOCUMENTATION = ROOT / "requirements-docs.lock"
"""The packages that build the site of the documentation, in an environment of their own."""

GENERATOR = ROOT / "tests" / "openapi" / "openapi-python-client.lock"
ANALYSIS = ROOT / "tests" / "documentation" / "analysis.lock"
"""The packages with which a recipe reads results."""

_PIN = re.compile(r"^([\w.-]+)==(\S+)(?: ; (.+?))? \\$((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?$)+)", re.M)


class Pin(NamedTuple):
    """One package of a lock file.

    Attributes:
        name: its name in the index.
        version: the only version that is installed.
        marker: on which platforms it is installed; empty for all.
        hashes: SHA-256 of each file that may be installed.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def read_pins(lock: Path) -> list[Pin]:
    """Return the packages of a lock file.

    Raises:
        ValueError: a line of the file belongs to no pin, so a package would be missed.
    """
    text = lock.read_text()
    found = list(_PIN.finditer(text))
    if sum(len(one[0].splitlines()) for one in found) != len(text.splitlines()):
        raise ValueError(f"{lock.name} has lines that are not <name>==<version> with hashes of SHA-256.")
    return [Pin(one[1], one[2], one[3] or "", tuple(re.findall(r"[0-9a-f]{64}", one[4]))) for one in found]
