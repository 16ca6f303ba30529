"""Workflows as files: what creating one takes."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import orjson

from language.definition import Status

_MAX_BYTES = 1024 * 1024
"""What a body may have: the file is to be sent as it is."""


def written(definition: dict[str, Any], status: Status) -> bytes:
    """The JSON of a definition as it is stored, in lines if a body may have as much."""
    document = {**definition, "status": status}
    lines = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return lines if len(lines) <= _MAX_BYTES else orjson.dumps(document)


def file_name(name: str) -> str:
    """A name that every file system and header takes, without an ending."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub("[^A-Za-z0-9]+", "-", ascii_name).strip("-")[:100] or "workflow"
