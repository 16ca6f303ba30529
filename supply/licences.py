"""The licences of the locked packages, against the list of those that may be used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata

from supply.locks import Pin

ALLOWED = frozenset(
    {
        "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense",
        "MPL-2.0",  # binds who changes its own files, which nobody here does
    }
)  # fmt: skip

EXCEPTIONS = dict.fromkeys(("psycopg", "psycopg-binary", "psycopg-pool"), "LGPL-3.0-only")
"""Licences that single packages may have. The LGPL allows to import an unchanged library."""

_STATED = {
    # Their metadata say "BSD" alone; their licence files have the three clauses.
    "cronsim": "BSD-3-Clause", "netaddr": "BSD-3-Clause", "nodeenv": "BSD-3-Clause",
    # Installed on other platforms only.
    "colorama": "BSD-3-Clause", "httpx2-jsfetch": "BSD-3-Clause", "pywin32": "PSF-2.0",
}  # fmt: skip
_NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "PSFL": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}


def find_licence(name: str) -> str | None:
    """Return the licence of a package as an SPDX expression, or None if it says none that we know."""
    if name in _STATED:
        return _STATED[name]
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if expression := told.get("License-Expression"):
        return expression
    classifiers = [one.split(" :: ") for one in told.get_all("Classifier") or []]
    names = [told.get("License") or "", *(one[-1] for one in classifiers if one[0] == "License")]
    known = [_NAMES.get(one, one) for one in names]
    return next((one for one in known if one in ALLOWED), None)


def find_refused(pins: Iterable[Pin]) -> list[str]:
    """Return a line for each package whose licence is unknown or not allowed."""
    refused: list[str] = []
    for pin in pins:
        licence = find_licence(pin.name)
        named = set(re.findall(r"[\w.+-]+", licence or "")) - {"AND", "OR", "WITH"}
        if not licence or not named <= ALLOWED | {EXCEPTIONS.get(pin.name, "MIT")}:
            refused.append(f"{pin.name} {pin.version}: {licence or 'says no licence that is known here'}")
    return refused
