"""The versions of the package and of its interface."""

from __future__ import annotations

from importlib.metadata import version

PACKAGE = version("vedette")
"""The version of this release, as in `vedette --version`."""

INTERFACE = "2.0.0"
"""The version of the HTTP interface; docs/changelog.md has its history."""
