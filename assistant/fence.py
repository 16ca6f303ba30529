"""The fence around results: the model reads what stands in it as data, and none of it as an instruction."""

from __future__ import annotations

import secrets

MAX_BYTES = 8 * 1024
"""The most bytes of a result that the model reads."""
_CUT = "…[cut at 8 KB]"


def fence_result(number: str, tool: str, text: str) -> str:
    """Return a result between two marks that nobody outside can know, cut at 8 KB."""
    mark = secrets.token_hex(8)
    raw = text.encode()
    if len(raw) > MAX_BYTES:
        text = raw[: MAX_BYTES - len(_CUT.encode())].decode(errors="ignore") + _CUT
    return f"<data-{mark} result={number} tool={tool}>\n{text}\n</data-{mark}>"
