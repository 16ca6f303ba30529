"""Workflows as files: the JSON from which the same workflow can be created."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import orjson

from language.definition import Status

_MAX_BYTES = 1024 * 1024
"""The largest body of a request: the file must fit in one."""


def write_document(definition: dict[str, Any], status: Status) -> bytes:
    """Return the JSON of a stored definition, indented if that fits in the body of a request."""
    document = {**definition, "status": status}
    lines = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return lines if len(lines) <= _MAX_BYTES else orjson.dumps(document)


def file_name(name: str) -> str:
    """Return a name that is valid in every file system and header, without an extension."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub("[^A-Za-z0-9]+", "-", ascii_name).strip("-")[:100] or "workflow"
