"""`/auth.md`: how to get and use a credential, filled in from the settings and the OpenAPI document.

The text repeats nothing from routes, settings or errors.toml, so that it cannot become outdated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

import orjson

from api.deps import SESSION_SCHEME
from api.http.catalogue import CATALOGUE
from api.http.openapi import Operation, operations
from models.accounts import keys
from settings import Limit, Settings

_PLACE = re.compile(r"\[\[(\w+)\]\]")
_PRICE = re.compile(r"\b(Free|\d+ credits?\b[^.;]*)[.;]")
_SENTENCE = re.compile(r".+?\.(?=\s|$)")
_OPEN = (
    "Sign-up is open here. The account is the person's: register only when they ask for it, with their "
    "e-mail and a password\nof 12 characters or more that they keep."
)
_CLOSED = (
    "Sign-up is closed here. The operator makes accounts (`vedette accounts create EMAIL`), and keys too\n"
    "(`vedette keys create --account EMAIL`): with one of those, go on at step 3."
)
_REGISTER = """
Register, where the person has no account:

```sh
TOKEN=$(login | curl -fsS "$VEDETTE_URL/api/auth/register" -H 'Content-Type: application/json' -d @- \\
  | field token)
```
"""
# The errors that agents meet; errors.toml has their remedies.
_ERRORS = (
    "invalid_input", "not_authenticated", "invalid_credentials", "insufficient_credits", "insufficient_scope",
    "not_found", "idempotency_key_reused", "rate_limited", "all_providers_failed", "database_unavailable",
    "internal_error",
)  # fmt: skip
_METHODS = ("get", "post", "put", "patch", "delete")


def auth_md(settings: Settings, document: dict[str, Any]) -> str:
    """Return the page.

    Args:
        settings: the address, sign-up, credits and limits in force.
        document: the OpenAPI document of the application.
    """
    is_open = settings.signup_open
    by_need = _by_need(document)
    met = [CATALOGUE[code] for code in _ERRORS]
    values = {
        "address": settings.address,
        "prefix": keys.PREFIX,
        "session_hours": str(settings.session_hours),
        "scopes": ", ".join(f"`{scope}`" for scope in sorted(keys.ALL_SCOPES)),
        "accounts": _OPEN if is_open else _CLOSED,
        "register": _REGISTER if is_open else "",
        "signup_credits": _describe_credits(settings),
        "lookups": _rows(_lookups(document)),
        "endpoints": _rows((need, _abbreviate_paths(paths)) for need, paths in by_need.items() if need),
        "public": _abbreviate_paths(by_need[""]),
        "errors": _rows((str(one.status), f"`{one.code}`", _SENTENCE.findall(one.remedy)[0]) for one in met),
        "limits": _rows(_limits(settings)),
    }
    text = files("api").joinpath("auth.md").read_text("utf-8")
    return _PLACE.sub(lambda place: values[place[1]], text)


def _describe_credits(settings: Settings) -> str:
    if not settings.charges:
        return "Credits are switched off here: every price below is 0. "
    return f"A new account has {settings.signup_credits:,} credits. " if settings.signup_open else ""


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def price_of(operation: Operation) -> str | None:
    """Return the price in an operation's description: `Free`, `1 credit if …`."""
    found = _PRICE.search(operation["description"])
    return found and " ".join(found[1].split())


def _lookups(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield path, scope, example of the body and price of each operation whose description has a price."""
    for path, _, operation in operations(document):
        if "x-same-as" not in operation and (price := price_of(operation)):
            yield f"`{path}`", _need(operation), f"`{_example(document, operation)}`", price


def _example(document: dict[str, Any], operation: Operation) -> str:
    """Return the first example of an operation's JSON body."""
    content: dict[str, Any] = operation["requestBody"]["content"]["application/json"]
    schema: dict[str, Any] = content["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    named = [one["value"] for one in content.get("examples", {}).values() if "value" in one]
    given = [content["example"]] if "example" in content else named
    return orjson.dumps([*given, *schema.get("examples", [])][0]).decode()


def _by_need(document: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return needed permission (empty: none) → paths → methods, without lookups and discovery.

    A path under `/api/agent/` is left out if the same path exists without `agent`.
    """
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, method, operation in sorted(operations(document), key=lambda one: one[0]):
        twice = "/agent/" in path and path.replace("/agent/", "/", 1) in document["paths"]
        if not twice and not price_of(operation) and "discovery" not in operation["tags"]:
            found[_need(operation)][path].append(method)
    return found


def _need(operation: Operation) -> str:
    """Return the scope that a key needs, `any`, or `a session`; empty if no credential is needed."""
    needed: list[dict[str, list[str]]] = operation["security"]
    if not needed:
        return ""
    scopes = next(iter(needed[0].values()))
    return "a session" if SESSION_SCHEME in needed[0] else f"`{scopes[0]}`" if scopes else "any"


def _abbreviate_paths(paths: dict[str, list[str]]) -> str:
    """Return the paths with their methods, shortened.

    `…` stands for the last path written in full; paths that differ in the last word alone are joined. All ids
    are called `id`.
    """
    siblings: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, methods in paths.items():
        above, slash, word = re.sub(r"\w+_id}", "id}", path).rpartition("/")
        above, word = (above + slash, word) if "{" not in word else (above + slash + word, "")
        siblings[above, " ".join(sorted(methods, key=_METHODS.index)).upper()].append(word)
    whole = ""
    written: list[str] = []
    for (above, methods), words in siblings.items():
        path = above + ",".join(words)
        below = bool(whole) and path.startswith(f"{whole}/")
        written.append(f"`{methods} {'…' + path.removeprefix(whole) if below else path}`")
        whole = whole if below else path
    return ", ".join(written)


def _limits(settings: Settings) -> Iterator[tuple[str, ...]]:
    yield "`/api/agent/ip`, of an account", _rate(settings.limit_ip)
    yield "`/api/agent/breaches`, of an account", _rate(settings.limit_breaches)
    yield "all other lookups together, of an account", _rate(settings.limit_lookups)
    yield "bulk searches, bulk jobs and uploads together, of an account", _rate(settings.limit_bulk)
    yield "failed logins and sign-ups, of an address", _rate(settings.limit_login)
    yield "events at an ingest URL, of a workflow", _rate(settings.limit_ingest)


def _rate(limit: Limit) -> str:
    return "no limit" if limit is None else f"{limit.requests:,} in {limit.seconds} s"
