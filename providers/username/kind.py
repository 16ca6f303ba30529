"""The kind `username`: the sites that are asked, and how what they have becomes one answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from models.errors import FieldError, Invalid
from providers.sources.base import Derived, Kind, Query, one_credit
from providers.username import bluesky, githubusers, gitlab, hackernews, keybase, mastodon, whatsmyname
from providers.username.answer import UsernameAnswer

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,63}", re.IGNORECASE)


def normalise(text: str, pointer: str) -> Query:
    """The name without an `@` before it. Upper and lower case stay: on some sites they matter.

    Raises:
        Invalid: if `text` is not a name that any of the sites would allow.
    """
    name = text.strip().removeprefix("@")
    if not _NAME.fullmatch(name):
        raise Invalid([FieldError(pointer, "invalid_username", _complaint(name))])
    return Query("username", name)


def _complaint(name: str) -> str:
    if "/" in name:
        reason = "This is a URL; only the name in it belongs here"
    elif "@" in name:
        reason = "This is an address; only a user name belongs here"
    else:
        reason = "A user name has 1 to 64 letters, digits, hyphens, dots and underscores"
    return f"{reason}; give one such as octocat."


def derive(fields: Mapping[str, Any], moment: datetime) -> Derived:
    """How many accounts there are."""
    return {"total": (len(fields["found"]), "found")} if "found" in fields else {}


KIND = Kind(
    name="username",
    sources=(
        githubusers.SOURCE,
        gitlab.SOURCE,
        hackernews.SOURCE,
        bluesky.SOURCE,
        keybase.SOURCE,
        mastodon.SOURCE,
        whatsmyname.SOURCE,
    ),
    answer=UsernameAnswer,
    example="octocat",
    rules={"found": "union_by_url"},
    normalise=normalise,
    echo="username",
    count="checked",
    derive=derive,
    origins={"total": ("found",), "checked": ("found",)},
    none={"total": (0, "found")},
    price=1,
    cost=one_credit,  # also when nobody has that name
)
