"""Which versions there are: of the package, and of the interface that it has."""

from __future__ import annotations

from importlib.metadata import version

PACKAGE = version("vedette")
"""That of this release, as `vedette --version` says it."""

INTERFACE = "2.0.0"
"""That of the HTTP interface; docs/changelog.md has its history."""
