"""The identity of the person whom the sources describe: two people never become one profile.

An address may have belonged to another person, or a source may be wrong. Names decide: where they disagree,
the description by the less certain source is kept apart, and so is one without a name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from models.names import plain_name
from providers.email.socials import FIELDS as SOCIALS
from providers.sources.base import Fields

OTHERS = "other_people"
# The fields of a person, in the order of the answer.
_TOLD = (
    "name first_name last_name company job_role seniority department industry company_domain company_size"
    " location country city bio phone photo"
).split()
PERSONAL = frozenset({*_TOLD, "languages", *SOCIALS})
"""The fields that describe the person, and not the address."""

_SHORT_FORM = 3
_TITLES = frozenset("dr mag mr mrs ms prof".split())
# Letters without an accent that could be removed.
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})


def apart(
    told: Mapping[str, Fields], people: Collection[str]
) -> tuple[Mapping[str, Fields], Mapping[str, Fields]]:
    """Separate the person whom the most certain source names from others.

    Args:
        told: source → its fields, in the order of precedence.
        people: the sources that know people.

    Returns:
        The same fields, with other people under `other_people`; and source → its fields about another person.
    """
    names = {source: name for source in people if (name := full_name(told.get(source, {})))}
    agreed: list[str] = []
    others: set[str] = set()
    for source in told:
        if source in names and agree(names[source], agreed):
            agreed.append(names[source])
        elif source in names:
            others.add(source)
    if not others:
        return told, {}
    others.update(source for source in told if source in people and source not in names)
    left_out: dict[str, Fields] = {}
    kept: dict[str, Fields] = {}
    for source, fields in told.items():
        if source not in others or PERSONAL.isdisjoint(fields):
            kept[source] = fields
            continue
        left_out[source] = {path: value for path, value in fields.items() if path in PERSONAL}
        kept[source] = {path: value for path, value in fields.items() if path not in PERSONAL}
        kept[source][OTHERS] = [person(source, fields), *fields.get(OTHERS, [])]
    return kept, left_out


def person(source: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source's description of a person, as an item of `other_people`."""
    told = {path: fields.get(path) or None for path in _TOLD}
    pages = [fields[path] for path in sorted(SOCIALS) if fields.get(path)]
    return {"source": source, **told, "languages": fields.get("languages") or [], "socials": pages}


def full_name(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the person in these fields; None if there is none, or an address in its place."""
    parts = (fields.get("first_name"), fields.get("last_name"))
    name: str = fields.get("name") or " ".join(part for part in parts if part)
    return name if "@" not in name and _words(name) else None


def agree(name: str, others: Iterable[str]) -> bool:
    """Return whether a name can belong to the person who has all these other names."""
    return all(same_person(name, other) for other in others)


def same_person(one: str, other: str) -> bool:
    """Return whether two names can be one person's.

    They can if every word of the shorter name is one of the longer, its initial or its short form (`Ben`),
    and at least one word is equal, whatever the order, accents and titles. They also can if one is a handle
    made of the other, such as `alovelace`.
    """
    few, many = sorted((_words(one), _words(other)), key=len)
    if len(few) == 1 and _is_handle(few[0], many):
        return True
    same = [word for word in few if word in many]
    left = [word for word in many if word not in same]
    for word in few:
        if word not in same:
            short = next((own for own in left if _shortens(word, own)), None)
            if short is None:
                return False
            left.remove(short)
    return any(len(word) > 1 for word in same)


def _shortens(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and (len(short) == 1 or len(short) >= _SHORT_FORM)


def _words(name: str) -> list[str]:
    words = plain_name(name.replace("_", " ")).translate(_LETTERS).split()
    return [word for word in words if word not in _TITLES] or words


def _is_handle(handle: str, words: list[str]) -> bool:
    bare = handle.rstrip("0123456789")
    first, last = words[0], words[-1]
    made = (first, "".join(words), first[0] + last, first + last[0], last + first, last + first[0])
    return len(bare) > 1 and bare in made
