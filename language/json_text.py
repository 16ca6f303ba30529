"""Find from the text of JSON, without parsing it, how deep it is and what is outside its strings."""

from __future__ import annotations

from itertools import accumulate

MAX_DEPTH = 100
"""The nesting of arrays and objects that bodies may have."""

# Brackets and braces count alike for depth; all bytes but these and quotes are dropped.
_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEP = [0] * 256
_STEP[ord("[")], _STEP[ord("]")] = 1, -1
_PIECE_BYTES = 64


def is_too_deep(raw: bytes) -> bool:
    """Return whether arrays and objects are nested deeper than `MAX_DEPTH`, within milliseconds."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    marks = without_escapes(raw).translate(_TO_BRACKETS, _NEITHER_BRACKET_NOR_QUOTE)
    brackets, depth = outside_strings(marks), 0
    # Counting is cheap: brackets are walked one by one only if there are enough to exceed the depth.
    for start in range(0, len(brackets), _PIECE_BYTES):
        piece = brackets[start : start + _PIECE_BYTES]
        opened = piece.count(b"[")
        if depth + opened > MAX_DEPTH and depth + max(accumulate(map(_STEP.__getitem__, piece))) > MAX_DEPTH:
            return True
        depth += 2 * opened - len(piece)
    return False


def without_escapes(raw: bytes) -> bytes:
    """Return the text without escaped quotes and backslashes, so that each quote begins or ends a string."""
    return raw.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in raw else raw


def outside_strings(raw: bytes) -> bytes:
    """Return the parts outside strings of a text without escapes; an unclosed string is dropped too."""
    return b"".join(raw.replace(b'""', b"").split(b'"')[::2])
