"""GitLab.com: users."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, cast

from providers.sources.base import Evidence, Fields, RemoteSpec, SourceError
from providers.sources.rest import Get, rest
from providers.username.accounts import account
from settings import Rate

_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{1,254}", re.IGNORECASE)


def parse(raw: Any) -> Fields:
    """Read an answer: the users of exactly that name, at most one."""
    if not isinstance(raw, list):
        raise SourceError("bad_response", "not_a_list")
    users = cast("list[Any]", raw)
    return account("GitLab", users[0]["web_url"], "coding", name=users[0]["username"]) if users else {}


SOURCE = rest(
    RemoteSpec(
        name="gitlab",
        kind="username",
        fields=frozenset({"found"}),
        licence="GitLab terms of use",
        terms="https://about.gitlab.com/terms/",
        attribution="GitLab, https://gitlab.com",
        evidence=Evidence("https://docs.gitlab.com/api/users/#list-users", date(2026, 11, 21)),
        base_url="https://gitlab.com/api/v4",
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rates=(Rate(120, 60),),
        personal=True,
    ),
    Get(path="/users", params={"username": "{query}"}),
    parse,
    takes=lambda query: _NAME.fullmatch(query.text) is not None,
)
