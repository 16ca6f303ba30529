"""The kind `username`: its sources in the order of precedence, and how their fields become one answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from models.errors import FieldError, Invalid
from providers.sources.base import Query
from providers.sources.kind import Derived, Kind, one_credit
from providers.username import bluesky, githubusers, gitlab, hackernews, keybase, mastodon, whatsmyname
from providers.username.answer import UsernameAnswer

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,63}", re.IGNORECASE)


def normalise(text: str, pointer: str) -> Query:
    """Return the name without a leading `@`, in its original case, which matters on some sites.

    Raises:
        Invalid: if no site would allow `text` as a name.
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
    """Return the number of accounts."""
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
    cost=one_credit,  # even if no site has the name
)
