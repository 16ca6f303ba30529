"""The citations of an answer: each fact leads to the result, the field, its source and its time.

The model cites as `[r3 location.city]`. What it cites is looked up in the results that it was given, so a
made-up citation is shown as unknown, and a claim without one is marked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CITATION = re.compile(r"\[(r\d{1,6})(?:[ :]+([^\]\s]{1,200}))?\]")
_NO_CLAIM = re.compile(r"\s*(#|```|\||[-*>\s]*$)")


def cite_lines(text: str, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of an answer, each with its citations and whether it is a claim without a source.

    Args:
        text: of the model.
        results: by number, `{tool, at, facts, reads}` of each result of the conversation.
    """
    # What the model says of what it has done needs no source.
    has_read = any(result["reads"] for result in results.values())
    in_code, lines = False, list[dict[str, Any]]()
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        citations = [_resolve(found[1], found[2], results) for found in _CITATION.finditer(line)]
        is_claim = (
            has_read and not in_code and not _NO_CLAIM.match(line) and not line.rstrip().endswith(("?", ":"))
        )
        known = any(one["known"] for one in citations)
        lines.append({"text": line, "citations": citations, "unsourced": is_claim and not known})
    return lines


def _resolve(number: str, path: str | None, results: Mapping[str, Any]) -> dict[str, Any]:
    result = results.get(number)
    if result is None:
        return {"result": number, "field": path, "known": False, "source": None, "at": None}
    found = _find_fact(path, result["facts"]) if result["facts"] else ("vedette", result["at"])
    source, at = found or (None, None)
    return {
        "result": number, "tool": result["tool"], "field": path, "known": found is not None,
        "source": source, "at": at,
    }  # fmt: skip


def _find_fact(path: str | None, facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the source and time of a field: its own, those of a part of it, or of the block it is in."""
    if path is None:
        return None
    plain = re.sub(r"\[\d*\]", "", path)
    for known, (source, at) in facts.items():
        if known == plain or known.startswith(f"{plain}.") or plain.startswith(f"{known}."):
            return source, at
    return None
