"""Targets: texts as people write them → the one form in which each is stored, or the error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from models.errors import FieldError, Invalid
from providers.registry import KINDS
from services.process_pool import Ask, ProcessPool

LONGEST = 500
"""The most characters of a target."""

# About 2 ms of e-mail addresses; 20 ms if every character is of a slow script.
_INLINE_CHARACTERS = 4_000
_AT_ONCE = 1_000
# A thousand of these take at most 5 ms, about as long as sending them to a process. Between two parts other
# requests have their turn, so the parts are small: many files may be checked at a time.
_QUICK, _QUICK_AT_ONCE = ("ip", "username", "websearch"), 100


class Rejected(NamedTuple):
    """A text that is no target, by its index among those given; with a stable code."""

    position: int
    code: str
    message: str


class Checked(NamedTuple):
    """The normal forms of the valid texts, in order, and the rejected texts."""

    targets: list[str]
    rejected: list[Rejected]


async def check_targets(pool: ProcessPool, account_id: UUID, type: str, texts: Sequence[str]) -> Checked:
    """Normalise texts, here if that is quick, else in processes of the pool.

    Args:
        pool: normalises slow texts, a thousand at a time.
        account_id: the owner of the work.
        type: the kind of lookup of the targets. Company names and dark-web queries are only trimmed; see
            `normalise` of the kind for the others.
        texts: the texts as people wrote them.

    Raises:
        PoolBusy, WorkLost: it was not started in time, or its process ended.
    """
    if type in _JUST_TRIMMED or sum(map(len, texts)) <= _INLINE_CHARACTERS:
        return _check(type, texts, 0)
    checked = Checked([], [])
    at_once = _QUICK_AT_ONCE if type in _QUICK else _AT_ONCE
    for start in range(0, len(texts), at_once):
        chunk = texts[start : start + at_once]
        if type in _QUICK:
            found = _check(type, chunk, start)
            await asyncio.sleep(0)
        else:
            found = await pool.run(("targets", account_id), None, _check_in_pool, type, chunk, start)
        checked.targets.extend(found.targets)
        checked.rejected.extend(found.rejected)
    return checked


def _check_in_pool(ask: Ask, type: str, texts: Sequence[str], start: int) -> Checked:
    return _check(type, texts, start)


def _check(type: str, texts: Sequence[str], start: int) -> Checked:
    checked = Checked([], [])
    for position, text in enumerate(texts, start):
        try:
            checked.targets.append(_normal_form(type, text.strip()))
        except Invalid as invalid:
            error = invalid.errors[0]
            checked.rejected.append(Rejected(position, error.code, error.message))
    return checked


def _normal_form(type: str, text: str) -> str:
    if type not in _JUST_TRIMMED:
        # Longer text is a target of no type, and need not be read to its end.
        return KINDS[type].normalise(text[: LONGEST + 1], "").text
    if not 1 <= len(text) <= LONGEST:
        raise Invalid([_JUST_TRIMMED[type]])
    return text


_LENGTHS = f"has 1 to {LONGEST} characters."
_JUST_TRIMMED = {
    "company": FieldError("", "invalid_company", f"A company's name {_LENGTHS}"),
    "darkweb": FieldError("", "invalid_query", f"A query {_LENGTHS}"),
}
